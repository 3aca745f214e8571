"""The option ``reasoning``: marks that a user names, for answers, recordings and streams."""

import pytest
from chat_server import ask, said

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import Request, StageError, llm
from pyterrier_ikat.llms.failures import UnknownMark
from pyterrier_ikat.llms.request import Reading
from pyterrier_ikat.llms.streaming import Writing

ANSWER = "Where does rooibos grow?"
PONDER = "reasoning='<ponder> </ponder>'"


def test_a_kept_answer_is_read_again_without_a_call(server, model, tmp_path):
    server.respond = lambda body: said(f"<ponder>hm</ponder>{ANSWER}")
    priced = f"cache={tmp_path / 'c.sqlite'} price_in=1000000 price_out=1000000"
    first = model(priced)
    for number in range(2):  # the second time from the cache
        [failure] = first.ask(ask("a"))
        assert (type(failure), failure.kept, server.calls, number) == (UnknownMark, True, 1, number)
        assert "read without a call" in failure.reason
    paid = first.budget.spent
    assert paid > 0
    again = model(f"{priced} {PONDER}")
    [found] = again.ask(ask("a"))
    assert (found.text, found.cached, server.calls, again.budget.spent) == (ANSWER, True, 1, 0)
    assert again.peek(ask("a")[0]).text == ANSWER
    assert first.peek(ask("a")[0]) is None
    assert first.is_settled(ask("a", "b")) == [True, False]
    assert first.ledger.frame()[["calls", "failures"]].to_numpy().tolist() == [[1, 2]]


def test_how_answers_are_read_is_in_a_runs_identity_not_the_key(model):
    plain = model()
    named = model(PONDER)
    assert plain != named
    assert plain.fingerprint() != named.fingerprint()
    assert ask("a")[0].key(plain.backend.identity) == ask("a")[0].key(named.backend.identity)


def test_the_option_is_one_of_objects_and_recordings(tmp_path):
    class Ponders:
        def generate(self, chats):
            return [f"<ponder>hm</ponder>{ANSWER}" for _ in chats]

    turn = ikat.conversation([{"role": "user", "content": "Where?"}])
    assert (
        ikat.Rewrite(llm(Ponders(), reasoning="<ponder> </ponder>"))(turn)["query"].item() == ANSWER
    )
    with pytest.raises(StageError, match="1 UnknownMark.*<ponder>"):
        ikat.Rewrite(llm(Ponders()))(turn)
    file = tmp_path / "recorded.jsonl"
    file.write_text(
        f'{{"qid": "1", "stage": "s", "completion": "<ponder>hm</ponder>{ANSWER}", "model": "m"}}\n'
    )
    request = Request([{"role": "user", "content": "Where?"}], "s", "1")
    assert llm(f"recorded:{file} {PONDER}").ask([request])[0].text == ANSWER
    [failure] = llm(f"recorded:{file}").ask([request])
    assert (type(failure), failure.kept) == (UnknownMark, True)


@pytest.mark.parametrize(
    "wrong", ["reasoning=ponder", "reasoning='<ponder>'", "reasoning='a b'", "reasoning="]
)
def test_an_option_that_names_no_pair_is_refused(wrong):
    with pytest.raises(
        ikat.UsageError, match="reasoning is wrong: give the opening and the closing mark"
    ):
        llm(f"openai:m {wrong}")


def test_a_stream_is_read_with_the_marks_that_a_user_names(server, model):
    told = []
    writing = Writing(told.append, Reading((("<ponder>", "</ponder>"),)))
    for sign in f"<ponder>hm</ponder>{ANSWER}":
        writing._next = 0
        writing.add(sign)
    assert told[-1] == ANSWER
    assert all(ANSWER.startswith(text) for text in told)
