"""A chat with a method by name: on the sample, with recorded completions."""

import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics, topics_frame
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.llms import LLM, Ledger
from pyterrier_ikat.operator import parts_of

RECORDED = {"persona": "ikat:sample", "number": "1-1", "llm": "recorded:sample"}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "index"
    ikat.PassageIndex(path).index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
    return str(path)


class SharedWords(pt.Transformer):
    """Scores a passage by the words that it shares with the query: re-ranks without a model that takes seconds to load."""

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        pairs = zip(inp["query"], inp["text"], strict=True)
        scores = [float(len(set(query.lower().split()) & set(text.lower().split()))) for query, text in pairs]
        return pt.model.add_ranks(inp.drop(columns="rank", errors="ignore").assign(score=scores))


@pytest.fixture
def reranker():
    return SharedWords()


def test_a_rewrite_is_shown_and_a_ranking_without_response(index, reranker):
    ledger = Ledger()
    chat = Chat("qr", ledger=ledger, index=index, **RECORDED, reranker=reranker)
    first = chat.say(chat.expected())
    assert (
        first.rewrite
        == "What kind of easy multi-day walking route suits a beginner of sixty with a bad knee and a dog who travels by train?"
    )
    assert first.response == ""
    assert len(first.sources) == 5
    assert all(source.text for source in first.sources)
    assert ledger.frame()["known"].sum() == 1


def test_responses_become_the_history_and_the_saved_file_a_topics_file(index, reranker, tmp_path):
    path = tmp_path / "chat"
    chat = Chat("short_long_2", index=index, **RECORDED, reranker=reranker, save_to=path)
    while chat.expected() is not None and len(chat.turns) < 2:
        assert chat.say(chat.expected()).response
    saved = read_topics(path / "topics.json")
    recorded = ikat.dataset("ikat:sample").conversations[0]
    assert saved[0].ptkb == recorded.ptkb
    assert [turn.utterance for turn in saved[0].turns] == [turn.utterance for turn in recorded.turns[:2]]
    assert topics_frame(saved)["qhistory"][1][1]["content"] == chat.turns[0].response
    assert all(turn.passages for turn in saved[0].turns)
    assert [turn.response for turn in saved[0].turns] != [turn.response for turn in recorded.turns[:2]]


def test_recorded_completions_for_another_conversation_say_what_is_missing(index, reranker):
    chat = Chat("ad", index=index, llm="recorded:sample", reranker=reranker)
    with pytest.raises(ikat.DataError, match="lacks 1 completion: chat_1 answer"):
        chat.say("Which tea?")


def test_a_method_without_an_llm_takes_any_words(index):
    chat = Chat("raw", index=index, persona="ikat:sample", number="1-1")
    assert chat.expected() is None
    assert "poles" in chat.say("trekking poles for a worn knee").sources[0].text.lower()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("human_qr", {}, "reads annotations of each turn, such as manual rewrites, and a live user gives none"),
        ("nothing", {}, "there is no method"),
        ("ad", {}, "needs llm: give llm="),
        ("raw", {"persona": "ikat:sample"}, "has the conversations"),
    ],
)
def test_what_is_wrong_is_found_before_the_first_turn(index, name, options, message):
    with pytest.raises(ikat.UsageError, match=message):
        Chat(name, index=index, **options)


def test_what_a_method_does_not_use_is_said_and_serves_the_next_one(index, reranker):
    chat = Chat("raw", index=index, **RECORDED, reranker=reranker)
    silent = "raw writes no response: you see the best passages, and the history has only your words"
    assert chat.notes == (silent, "raw doesn't use llm=...: another method of this chat may")
    assert chat.expected() is None
    chat.use("short_long_2")
    assert (chat.method, chat.notes) == ("short_long_2", ())
    assert chat.say(chat.expected()).method == "short_long_2"
    chat.use("raw")
    assert (chat.expected(), chat.notes[0]) == (None, silent)


def test_one_llm_serves_all_methods_so_that_its_budget_counts_them_together(index, reranker):
    chat = Chat("qr", index=index, **RECORDED, reranker=reranker)
    first = next(part for part in parts_of(chat.system) if isinstance(part, LLM))
    chat.use("ad")
    assert next(part for part in parts_of(chat.system) if isinstance(part, LLM)) is first


@pytest.mark.parametrize(("name", "message"), [("qq", "there is no method"), ("human_qr", "manual rewrite"), ("gtr", "needs second_llm")])
def test_a_method_that_cannot_be_loaded_leaves_the_old_one(index, reranker, name, message):
    chat = Chat("qr", index=index, **RECORDED, reranker=reranker)
    before = (chat.method, chat.system, chat.script, chat.notes)
    with pytest.raises(ikat.UsageError, match=message):
        chat.use(name)
    assert (chat.method, chat.system, chat.script, chat.notes) == before


def test_a_saved_chat_goes_on_with_its_persona_and_another_method(index, tmp_path):
    path = tmp_path / "chat"
    Chat("raw", index=index, persona="ikat:sample", number="1-1", save_to=path).say("trekking poles")
    chat = Chat("all_utterances", index=index, continue_from=path)
    assert (chat.number, len(chat.ptkb), chat.turns[0].method) == ("1-1", 9, "raw")
    chat.say("for a worn knee")
    assert [turn.utterance for turn in read_topics(path / "topics.json")[0].turns] == ["trekking poles", "for a worn knee"]
    with pytest.raises(ikat.UsageError, match="is the conversation 1-1"):
        Chat("raw", index=index, continue_from=path, persona="ikat:sample", number="1-2")


def test_a_chat_with_a_pipeline_changes_to_a_method_by_its_resources(index):
    with pytest.raises(ikat.UsageError, match="method raw needs retriever: give index="):
        Chat(pt.Transformer.identity()).use("raw")
    chat = Chat(pt.Transformer.identity(), index=index)
    chat.use("raw")
    assert chat.say("trekking poles").sources
