"""A chat with a method by name: on the sample, with recorded completions."""

import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.chat import open_chat
from pyterrier_ikat.conversations import read_topics, topics_frame
from pyterrier_ikat.llms import Ledger

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
    chat = open_chat("qr", ledger, index=index, **RECORDED, reranker=reranker)
    first = chat.say(chat.expected())
    assert (
        first.rewrite
        == "What kind of easy multi-day walking route suits a beginner of sixty with a bad knee and a dog who travels by train?"
    )
    assert first.response == ""
    assert len(first.sources) == 5
    assert all(source.text for source in first.sources)
    assert ledger.frame()["calls"].sum() == 1


def test_responses_become_the_history_and_the_saved_file_a_topics_file(index, reranker, tmp_path):
    path = tmp_path / "chat.json"
    chat = open_chat("short_long_2", Ledger(), index=index, **RECORDED, reranker=reranker, save_to=path)
    while chat.expected() is not None and len(chat.turns) < 2:
        assert chat.say(chat.expected()).response
    saved = read_topics(path)
    recorded = ikat.dataset("ikat:sample").conversations[0]
    assert saved[0].ptkb == recorded.ptkb
    assert [turn.utterance for turn in saved[0].turns] == [turn.utterance for turn in recorded.turns[:2]]
    assert topics_frame(saved)["qhistory"][1][1]["content"] == chat.turns[0].response
    assert all(turn.passages for turn in saved[0].turns)
    assert [turn.response for turn in saved[0].turns] != [turn.response for turn in recorded.turns[:2]]


def test_other_words_than_the_recorded_ones_are_refused(index, reranker):
    chat = open_chat("qr", Ledger(), index=index, **RECORDED, reranker=reranker)
    with pytest.raises(ikat.UsageError, match="those of turn 1-1_1 answer only"):
        chat.say("Which tea?")


def test_recorded_completions_for_another_conversation_say_what_is_missing(index, reranker):
    chat = open_chat("ad", Ledger(), index=index, llm="recorded:sample", reranker=reranker)
    with pytest.raises(ikat.DataError, match="qid chat_1, stage answer"):
        chat.say("Which tea?")


def test_a_method_without_an_llm_takes_any_words(index):
    chat = open_chat("raw", Ledger(), index=index, persona="ikat:sample", number="1-1")
    assert chat.expected() is None
    assert "poles" in chat.say("trekking poles for a worn knee").sources[0].text.lower()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("human_qr", {}, "needs the manual rewrite of each turn, and a chat has none"),
        ("nothing", {}, "there is no method"),
        ("ad", {}, "needs llm: give llm="),
        ("raw", {"persona": "ikat:sample"}, "several conversations"),
    ],
)
def test_what_is_wrong_is_found_before_the_first_turn(index, name, options, message):
    with pytest.raises(ikat.UsageError, match=message):
        open_chat(name, Ledger(), index=index, **options)
