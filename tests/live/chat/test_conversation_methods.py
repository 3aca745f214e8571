"""A chat with a method by name: on the sample, with recorded completions."""

import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics, topics_frame
from pyterrier_ikat.live.chat import Chat, conversation
from pyterrier_ikat.llms import Ledger

RECORDED = {"persona": "ikat:sample", "number": "1-1", "llm": "recorded:sample"}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "index"
    ikat.PassageIndex(path).index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
    return str(path)


class SharedWords(pt.Transformer):
    """Scores a passage by the words that it shares with the query, without a model."""

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        pairs = zip(inp["query"], inp["text"], strict=True)
        scores = []
        for query, text in pairs:
            shared = set(query.lower().split()) & set(text.lower().split())
            scores.append(float(len(shared)))
        return pt.model.add_ranks(inp.drop(columns="rank", errors="ignore").assign(score=scores))


def test_a_rewrite_is_shown_and_a_ranking_without_response(index):
    ledger = Ledger()
    chat = Chat("qr", ledger=ledger, index=index, **RECORDED, reranker=SharedWords())
    first = chat.say(chat.expected())
    assert first.rewrite.startswith(
        "What kind of easy multi-day walking route suits a beginner of sixty with a bad knee"
    )
    assert (first.method, first.response, len(first.sources)) == ("qr", "", 5)
    assert all(source.text for source in first.sources)
    assert ledger.frame()["known"].sum() == 1


def test_responses_become_history_and_the_save_a_topics_file(index, tmp_path):
    chat = Chat(
        "short_long_2", index=index, **RECORDED, reranker=SharedWords(), out=tmp_path / "chat"
    )
    for _ in range(2):
        assert chat.say(chat.expected()).response
    (saved,) = read_topics(tmp_path / "chat" / "topics.json")
    recorded = ikat.dataset("ikat:sample").conversations[0]
    assert saved.ptkb == recorded.ptkb
    assert [turn.utterance for turn in saved.turns] == [
        turn.utterance for turn in recorded.turns[:2]
    ]
    assert (
        topics_frame([saved])["qhistory"][1][1]["content"]
        == chat.turns[0].response
        != recorded.turns[0].response
    )
    assert all(turn.passages for turn in saved.turns)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "human_qr",
            {},
            "reads annotations of each turn, such as manual rewrites, and a live user gives none",
        ),
        ("nothing", {}, "there is no method"),
        ("ad", {}, "needs llm: give llm="),
        ("raw", {"persona": "ikat:sample"}, "has the conversations"),
        ("raw", {"llm": "recorded:sample"}, "uses llm="),
        (pt.Transformer.identity(), {}, "uses index="),
    ],
)
def test_what_is_wrong_is_found_before_the_first_turn(index, name, options, message):
    with pytest.raises(ikat.UsageError, match=message):
        Chat(name, index=index, **options)


def test_completions_of_another_chat_say_what_is_missing(index):
    chat = Chat("ad", index=index, llm="recorded:sample", reranker=SharedWords())
    with pytest.raises(ikat.DataError, match="lacks 1 completion: chat_1 answer"):
        chat.say("Which tea?")


def test_a_saved_chat_goes_on_with_persona_and_another_method(index, tmp_path):
    path = tmp_path / "chat"
    first = Chat("raw", index=index, persona="ikat:sample", number="1-1", out=path)
    assert first.expected() is None  # without an LLM it takes any words
    assert "poles" in first.say("trekking poles").sources[0].text.lower()
    chat = Chat("all_utterances", index=index, continue_from=path)
    assert (chat.number, len(chat.ptkb), chat.turns[0].method) == ("1-1", 9, "raw")
    assert chat.say("for a worn knee").method == "all_utterances"
    assert [turn.utterance for turn in read_topics(path / "topics.json")[0].turns] == [
        "trekking poles",
        "for a worn knee",
    ]
    with pytest.raises(ikat.UsageError, match=r"holds 1 conversation \(1-1\): choose one"):
        Chat("raw", index=index, continue_from=path, persona="ikat:sample", number="1-2")


def test_a_method_responds_with_marks_of_its_passages(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import pyterrier_ikat as ikat\n\n\ndef mine(llm, retriever):\n"
        "    return retriever >> ikat.Respond(llm)\n"
    )
    model, backend = scripted("Rooibos.")
    retriever = pt.apply.by_query(
        lambda frame: frame.assign(docno="d1", score=1.0, rank=0, text="Rooibos is red."),
        add_ranks=False,
    )
    Chat(f"{tmp_path / 'mine.py'}:mine", llm=model, retriever=retriever).say("Which tea?")
    assert "by their numbers" in str(backend.asked[0])


def test_a_model_of_batches_cannot_chat(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    system = ikat.Answer(ikat.llm(f"openai:small batch=on cache={tmp_path / 'cache.sqlite'}"))
    with pytest.raises(ikat.UsageError, match="can't wait a day .*omit batch=on"):
        Chat(system)


def test_a_chats_method_is_opened_live_with_spare_resources(monkeypatch, tmp_path):
    calls = []
    opened = conversation.open_systems

    def open_systems(method, ledger, **options):
        calls.append((method.name, options))
        return opened(method, ledger, **options)

    monkeypatch.setattr(conversation, "open_systems", open_systems)
    (tmp_path / "mine.py").write_text(
        "import pyterrier_ikat as ikat\n\n\ndef mine(llm):\n    return ikat.Answer(llm)\n"
    )
    model = scripted("Tea.")[0]
    memory = ikat.UserMemory(tmp_path / "me.jsonl", model)
    name = f"{tmp_path / 'mine.py'}:mine"
    for options in ({}, {"memory": memory}):
        Chat(name, llm=model, **options)
    spare = [options.pop("spare") for _, options in calls]
    assert spare == [(), ("llm", "prompts")]
    live = {"live": True, "cite": True, "connect": True, "llm": model}
    assert calls == [("mine", live)] * 2
