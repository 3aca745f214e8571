"""Of several responses, the best supported one is kept, with all that its responder wrote."""

import json
import re

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import CHAT, a_turn, calls_of, claims, found, mixed, planned, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.verdicts import read_claims
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.generate import BestResponse
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.planning import Plan

G = ikat.generate


def responders(*texts):
    """One responder for each list of texts, a text per turn."""
    made = []
    for of_turns in texts:
        llm, _ = scripted(*of_turns)
        made.append(ikat.Respond(llm, passages=2))
    return made


@pytest.mark.parametrize(
    ("verdicts", "number"),
    [
        (((True, False), (True, True), (False,)), 1),
        (((True, True), (True,), (True, True, True)), 2),  # equal shares: the longest
        (((), (False,), (False,)), 2),
        (((), (True, False), ()), 1),
    ],
)
def test_the_highest_share_wins_then_the_longest(verdicts, number):
    llm, backend = scripted(*(claims(*each) for each in verdicts))
    best = BestResponse(responders(["Mint."], ["Sage."], ["Thyme tea."]), judge=llm)(
        found(two_turns()[:1], 3)
    )
    assert best["qanswer"].unique().tolist() == [["Mint.", "Sage.", "Thyme tea."][number]]
    assert best["qresponder"].tolist() == [number] * 3
    assert len(backend.asked) == 3


def test_each_turn_has_its_choice_and_equal_responses_no_judging():
    turns = found(two_turns(), 2)
    cited = ikat.Respond(scripted("Sage. [2]", "Mint. [1]")[0], passages=2, cite=True)
    llm, backend = scripted(claims(False), claims(True))
    best = BestResponse([*responders(["Rooibos.", "Mint."]), cited], judge=llm)(turns)
    assert len(backend.asked) == 2  # of the first turn; both say the same in the second
    assert best.drop_duplicates("qid")[["qanswer", "qresponder"]].values.tolist() == [
        ["Sage.", 1],
        ["Mint.", 0],
    ]
    assert best["used"].tolist() == [True, False, True, True]  # the first responder cites nothing
    pd.testing.assert_frame_equal(best[turns.columns], turns)


def test_the_judge_sees_passages_conversation_and_response():
    llm, backend = scripted(claims(True), claims(False))
    BestResponse(responders(["Mint."], ["Sage."]), judge=llm, passages=1)(found(two_turns()[:1], 3))
    first, second = (chat[-1]["content"] for chat in backend.asked)
    assert ("Passage 0 of" in first, "Passage 1 of" in first, CHAT[0]["content"] in first) == (
        True,
        False,
        True,
    )
    assert first.replace("Mint.", "Sage.") == second


def test_a_failed_judgement_comes_last_or_ends_the_stage():
    def made(**more):
        llm = scripted("It is fine.", claims(False))[0]
        return BestResponse(responders(["Mint."], ["Sage."]), llm, **more)

    assert made(on_error="fallback")(found(two_turns()[:1], 2))["qanswer"].iloc[0] == "Sage."
    with pytest.raises(StageError, match="best_response"):
        made(on_error="raise")(found(two_turns()[:1], 2))


def test_what_is_no_responder_is_refused():
    with pytest.raises(UsageError, match="two or more"):
        BestResponse(responders(["Mint."]), judge=scripted()[0])
    for wrong in (pt.apply.generic(lambda rows: rows), ikat.Respond(scripted("Mint.")[0]) % 1):
        with pytest.raises(DataError, match="doesn't keep the rows or writes no qanswer"):
            BestResponse([*responders(["Mint."]), wrong], judge=scripted()[0])(
                found(two_turns()[:1], 2)
            )


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (claims(True, False), [True, False]),
        (f"<think>none</think>```json\n{claims()}\n```", []),
        ('{"claims": [{"claim": "a"}]}', None),
        ('{"claims": [{"claim": "a", "supported": "maybe"}]}', None),
        (claims(True) + claims(False), None),
        ("All of it.", None),
    ],
)
def test_verdicts_that_models_send(said, read):
    made = read_claims(said)
    assert (None if made is None else [one["supported"] for one in made]) == read


def letters_of(text):
    return "".join(filter(str.isalnum, text))


@pytest.mark.real_data
def test_real_responses_are_chosen_by_real_faithfulness(shared):
    """GPT-4o and Llama 3.1 answered 159 tasks of MTRAG.

    The judge answers by people's labels of their faithfulness, 1 to 4.
    """
    told = json.loads((shared / "mtrag/reference_subset_with_human_evaluations.json").read_text())
    texts = {document["document_id"]: document["text"] for document in told["documents"]}
    tasks = {task["task_id"]: task for task in told["tasks"]}
    names = ["llama-3.1-405b-instruct", "gpt-4o"]
    said = {}
    of_pair = {}
    for one in told["evaluations"]:
        labels = one["annotations"]["faithfulness"].values()
        total = sum(int(label["value"]) for label in labels)
        most = 4 * len(labels)
        qid = one["task_id"]
        response = one["model_response"]
        said[qid, one["model_id"]] = (response, total, most)
        question = tasks[qid]["input"][-1]["text"]
        of_pair[letters_of(question), letters_of(response)] = (total, most)
    rows = []
    for qid, task in tasks.items():
        messages = [{"role": "user", "content": message["text"]} for message in task["input"]]
        for rank, context in enumerate(task["contexts"]):
            turn = {
                "qid": qid,
                "query": messages[-1]["content"],
                "qutterance": messages[-1]["content"],
                "qhistory": messages[:-1],
            }
            rows.append(
                {
                    **turn,
                    "docno": context["document_id"],
                    "rank": rank,
                    "score": -rank,
                    "text": texts[context["document_id"]],
                }
            )
    frame = pd.DataFrame(rows)

    def responder(name):
        def respond(turns):
            return turns.assign(qanswer=[said[qid, name][0] for qid in turns["qid"]])

        return pt.apply.generic(respond)

    class People:
        def generate(self, chats):
            verdicts = []
            for chat in chats:
                _, question, response, _ = re.split(
                    r"\n# Last message of the user\n|\n# Response\n<response>|</response>",
                    chat[-1]["content"],
                )
                good, of = of_pair[letters_of(question), letters_of(response)]
                verdicts.append(claims(*[True] * good, *[False] * (of - good)))
            return verdicts

    answered = [responder(name) for name in names]
    best = BestResponse(answered, judge=ikat.llm(People()))(frame).drop_duplicates("qid")
    for qid, text, number in best[["qid", "qanswer", "qresponder"]].itertuples(index=False):
        values = []
        for name in names:
            response, total, most = said[qid, name]
            values.append((total / most, len(response)))
        assert text == said[qid, names[number]][0]
        assert values[number] == max(values)
    assert best["qresponder"].nunique() == 2


TestBestResponse = pt.testing.transformer_test_class(
    lambda: BestResponse(
        [
            ikat.Respond(ikat.llm("recorded:sample")),
            ikat.Respond(ikat.llm("recorded:sample"), words=99),
        ],
        scripted()[0],
    )
)


class Writes(pt.Transformer):
    """Writes an answer for some turns, and "same" for the others."""

    def __init__(self, *answers):
        self.answers = dict(answers)

    def transform(self, inp):
        return inp.assign(qanswer=[self.answers.get(qid, "same") for qid in inp["qid"]])


@pytest.mark.parametrize(
    ("answers", "verdicts", "best"),
    [
        (("aa", "bb"), [claims(True), claims(True)], 0),
        (("aa", "bbb"), [claims(True), claims(True)], 1),
        (("aaa", "bb"), [claims(False), claims(True)], 1),
        (("aaa", "bb"), [claims(), claims(True, False)], 1),
        (("aaa", "bb"), [claims(), claims(False)], 0),
        (("aaa", "bb"), ["prose", claims()], 1),
        (("aa", "bb"), [claims(True), claims(True, True, False)], 0),
        (("aa", "aa", "b"), [claims(True), claims(True)], 0),
        (("b", "aa", "aa"), [claims(True), claims(True)], 1),
    ],
)
def test_the_best_supported_response_is_kept(answers, verdicts, best):
    llm, backend = scripted(*verdicts)
    frame = found(two_turns(), 2).iloc[[2, 0, 3, 1]]
    says = [Writes(("chat_2", answer)) for answer in answers]
    chosen = ikat.BestResponse(says, llm, on_error="fallback")(frame)
    assert chosen["qresponder"].tolist() == [0, best, 0, best]
    assert chosen["qanswer"].tolist() == ["same", answers[best], "same", answers[best]]
    assert chosen["docno"].tolist() == frame["docno"].tolist()
    assert len(backend.asked) == len(verdicts)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda frame: frame,
        lambda frame: frame.assign(qanswer="x")[::-1],
        lambda frame: frame.assign(qanswer="x")[:1],
    ],
    ids=["silent", "reversed", "fewer"],
)
def test_a_responder_keeps_the_rows_and_answers(wrong):
    best = ikat.BestResponse([Writes(), pt.apply.generic(wrong)], scripted()[0])
    with pytest.raises(DataError, match="doesn't keep the rows or writes no qanswer"):
        best(found(a_turn(), 2))


def test_each_responder_begins_with_the_same_turns_in_a_plan():
    llm = scripted()[0]
    twice = G.AppendQuery(G.QueryColumn("query")) >> ikat.Respond(llm, question="query")
    rows = planned(ikat.BestResponse([twice, twice], scripted()[0]))
    assert [(row["stage"], row["calls"], row["shared"]) for row in rows] == [
        ("respond", 2, 0),
        ("respond", 2, 2),
        ("best_response", 4, 0),
    ]


def test_a_responder_that_changes_its_input_disturbs_no_other():
    seen = []

    def respond(rows):
        seen.append(rows["text"].tolist())
        rows["text"] = "changed"
        return rows.assign(qanswer=f"Answer {len(seen)}.")

    judge, backend = scripted(claims(False), claims(True))
    frame = found(a_turn(), 2)
    out = ikat.BestResponse([pt.apply.generic(respond)] * 2, judge)(frame)
    assert seen == [frame["text"].tolist()] * 2
    assert out["qanswer"].tolist() == ["Answer 2."] * 2
    assert len(texts(backend)) == 2
    assert "changed" not in "".join(texts(backend))


def test_each_turn_keeps_its_best_response_and_its_columns():
    answers = [("Mint.", "Rye."), ("Sage.", "Oat tea.")]
    responders = [ikat.Respond(scripted(*each)[0], 1) for each in answers]
    responders[1] = responders[1] >> pt.apply.generic(lambda rows: rows.assign(mark="second"))
    judge, backend = scripted(claims(True), claims(False), claims(True, False), claims(True))
    frame = mixed(2)
    out = ikat.BestResponse(responders, judge)(frame)
    assert out["qanswer"].tolist() == ["Mint.", "Oat tea."] * 2
    assert out["qresponder"].tolist() == [0, 1] * 2
    assert out["mark"].fillna("").tolist() == ["", "second"] * 2
    assert out["docno"].tolist() == frame["docno"].tolist()
    judged = ["Mint.", "Sage.", "Rye.", "Oat tea."]
    for response, prompt in zip(judged, texts(backend), strict=True):
        assert [other for other in judged if other in prompt] == [response]
    of_chat = [CHAT[2]["content"] in prompt for prompt in texts(backend)]
    assert of_chat == [True, True, False, False]


def test_a_plan_of_responders_asks_all_of_them_and_the_judge():
    llm = scripted()[0]
    judge = scripted()[0]
    best = ikat.BestResponse([ikat.Respond(llm, 2), ikat.Respond(llm, 3)], judge, 2)
    plan = Plan("mine", set())
    frame = two_turns()
    assert best.plan(frame, plan) is frame
    assert calls_of(plan) == [
        ("respond", 2, 2),
        ("respond", 2, 2),
        ("best_response", 4, 4),
    ]
    responded = found(a_turn(), 2).assign(qresponses=[["A.", "B."]] * 2)
    requests = best.requests(responded)
    assert [(request.qid, request.item) for request in requests] == [
        ("chat_2", "1"),
        ("chat_2", "2"),
    ]
    assert best.fallback(responded) == [None, None]
    assert best.typical(responded) == [
        [{"claim": "A.", "supported": True}],
        [{"claim": "B.", "supported": True}],
    ]
    with pytest.raises(ikat.UsageError, match="give two or more"):
        ikat.BestResponse([ikat.Respond(llm)], judge)
