"""What operators write for frames in any order and of any index: whole results."""

import json
import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt, scripted
from operators import CHAT, Watch, a_turn, claims, found, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.events import observed_by
from pyterrier_ikat.generate.respond import NoTextWarning, responses_without_model
from pyterrier_ikat.generate.sampled_queries import (
    QueryRanking,
    agreement,
    encode,
    joined,
    mean_score,
    spread,
    word_vectors,
)
from pyterrier_ikat.generate.statements import EXAMPLE_CONVERSATIONS, check_numbered, examples_of
from pyterrier_ikat.generate.utterances import QueryFile

G = ikat.generate


def results(*rows, **columns):
    """A result frame of one turn: a rank and a text a row, with an index of its own."""
    frame = pd.DataFrame(
        {
            "qid": "t",
            "query": "tea?",
            "docno": [f"d{rank}" for rank, _ in rows],
            "rank": [rank for rank, _ in rows],
            "text": [text for _, text in rows],
        },
        index=range(10, 10 + len(rows)),
    )
    return frame.assign(score=-frame["rank"].astype(float), **columns)


MIXED = results((3, "C."), (0, "A."), (2, " \n"), (1, ""), (4, "D."))


def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = call()
    return value, [str(one.message) for one in caught if one.category is NoTextWarning]


@pytest.mark.parametrize(
    ("passages", "shown", "skipped"),
    [
        (1, ["A."], None),
        (2, ["A.", "C."], "1 passage .*(d1)"),
        (3, ["A.", "C.", "D."], "2 passages"),
    ],
)
def test_empty_passages_are_passed_over_in_the_order_of_ranks(passages, shown, skipped):
    llm, backend = scripted("Mint.")
    responded, warned = told(lambda: ikat.Respond(llm, passages)(MIXED))
    used = responded.loc[responded["used"], "text"].tolist()
    assert used == [text for text in MIXED["text"] if text in shown]
    prompt = texts(backend)[0]
    assert [text for text in ("A.", "C.", "D.") if text in prompt] == shown
    assert sorted(shown, key=prompt.index) == shown
    assert len(warned) == (skipped is not None)
    assert responded["qanswer"].tolist() == ["Mint."] * 5
    assert responded[MIXED.columns.tolist()].equals(MIXED.reset_index(drop=True))


def test_every_passage_needs_a_rank_and_each_turn_a_text():
    llm, _ = scripted()
    ranked = found(two_turns(), 2)
    ranked["rank"] = ranked["rank"].astype(float)
    ranked.loc[3, "rank"] = np.nan
    with pytest.raises(DataError, match="a passage of turn other_1 has no rank"):
        ikat.Respond(llm)(ranked)
    blank = found(two_turns(), 2)
    blank.loc[2:, "text"] = " "
    every = r"all passages of 1 turn have an empty text \(other_1\)"
    with pytest.warns(NoTextWarning), pytest.raises(DataError, match=every):
        ikat.Respond(llm)(blank)
    blank.loc[1, "text"] = None
    with pytest.raises(DataError, match="row has no text in text"):
        ikat.Respond(llm)(blank[:2])


def test_an_action_is_written_to_each_row_of_its_turn():
    llm, _ = scripted('{"action": "ask", "question": "Which?"}', '{"action": "answer"}')
    frame = found(two_turns(), 2).iloc[[2, 0, 3, 1]]
    decided = G.Decide(llm)(frame)
    assert decided["qid"].tolist() == ["other_1", "chat_2", "other_1", "chat_2"]
    assert decided["qaction"].tolist() == ["ask", "answer", "ask", "answer"]
    assert decided["qaskback"].tolist() == ["Which?", "", "Which?", ""]


def test_responses_without_a_model_are_questions_and_abstentions():
    frame = pd.DataFrame(
        {
            "qid": ["a", "a", "b", "c", "d"],
            "qaction": ["ask", "ask", "abstain", "answer", None],
            "qaskback": ["Which?", "Which?", "Or?", "x", None],
        }
    )
    assert responses_without_model(frame, "No.") == {"a": "Which?", "b": "No."}
    assert responses_without_model(frame[["qid"]], "No.") == {}
    for action, question, part in (
        ("ask", " ", "turn a: qaction is 'ask', but qaskback has no question"),
        ("ask", None, "qaskback has no question"),
        ("ask", 5, "qaskback has no question"),
        ("stop", "", "turn a: qaction is 'stop': give one of answer, ask, abstain"),
    ):
        wrong = frame[:1].assign(qaction=action, qaskback=[question])
        with pytest.raises(DataError, match=part):
            responses_without_model(wrong, "No.")


def test_rows_of_answered_and_other_turns_stay_in_their_order():
    frame = found(two_turns(), 2).iloc[[0, 2, 1, 3]].reset_index(drop=True)
    frame = frame.assign(
        qaction=["abstain", "answer", "abstain", "answer"], qanswer=["x", "y", "x", "y"]
    )
    llm, backend = scripted("Mint [1].")
    responded = ikat.Respond(llm, abstention="No.", cite=True)(frame)
    assert responded["docno"].tolist() == frame["docno"].tolist()
    assert responded.index.tolist() == [0, 1, 2, 3]
    assert responded["qanswer"].tolist() == ["No.", "Mint.", "No.", "Mint."]
    assert responded["qdraft"].tolist() == ["x", "y", "x", "y"]
    assert responded["used"].tolist() == [False, False, False, True]
    assert [one is None for one in responded["qcitations"]] == [True, False, True, False]
    assert len(backend.asked) == 1


@pytest.mark.parametrize(
    ("answer", "used", "cited"),
    [
        ("Mint [2]. Sage [1][2].", ["d0", "d3"], [["d3"], ["d0", "d3"]]),
        ("Mint [2].", ["d3"], [["d3"]]),
        ("Mint [3].", ["d0", "d3"], [[]]),
        ("Mint.", ["d0", "d3"], [[]]),
    ],
)
def test_the_cited_passages_are_used_else_all_that_were_shown(answer, used, cited):
    llm, _ = scripted(answer)
    responded, _ = told(lambda: ikat.Respond(llm, 2, cite=True)(MIXED))
    assert sorted(responded["docno"][responded["used"]]) == used
    assert [citation["docnos"] for citation in responded["qcitations"].iloc[4]] == cited
    assert ledger(llm, "dropped") == answer.count("[3]")


def test_a_passage_and_a_response_are_cut_to_their_words():
    llm, backend = scripted("One two. Three four. Five.", "One two. Three.")
    frame = results((0, "Ab cd. Ef gh. Ij."), (1, "Kl mn op qr."))
    responded = ikat.Respond(llm, 2, words=4, passage_words=3)(frame)
    assert responded["qanswer"].iloc[0] == "One two. Three four."
    assert ledger(llm, "dropped") == 1
    prompt = texts(backend)[0]
    assert "Ab cd." in prompt
    assert "Ef gh" not in prompt
    assert "Kl mn op" in prompt
    assert "qr" not in prompt
    condensed = frame.assign(qpassages=[["St uv. Wx yz. Ab."]] * 2, used=[True, False])
    out = ikat.Respond(llm, words=3, form="condensed", passage_words=2)(condensed)
    assert out["used"].tolist() == [True, False]
    assert "St uv." in texts(backend)[1]
    assert "Wx yz" not in texts(backend)[1]
    assert ledger(llm, "dropped") == 1


def test_a_response_of_marks_alone_is_a_failure():
    llm, _ = scripted("[1]")
    with pytest.raises(ikat.IkatError, match="respond"):
        ikat.Respond(llm, cite=True)(MIXED[:2])


@pytest.mark.parametrize(
    ("scores", "read"),
    [
        ([0.1, 0.9, 0.8], [0, 1, 2]),
        ([0.9, 0.5, 0.8], [0]),
        ([0.9, 0.51, 0.5, 0.9], [0, 1]),
        ([0.9, 0.8, 0.7], [0, 1, 2]),
        (None, [0, 1, 2]),
    ],
)
def test_passages_are_read_up_to_the_first_at_the_threshold(scores, read):
    count = len(scores) if scores else 3
    frame = results(*[(rank, f"P{rank}.") for rank in reversed(range(count))])
    frame = frame.drop(columns="score") if scores is None else frame.assign(score=scores[::-1])
    model = ByPrompt(condense_passages="Sum.")
    condensed = G.Condense(model.llm, direct=1, threshold=0.5)(frame)
    assert sorted(condensed["rank"][condensed["used"]]) == read
    assert condensed["qpassages"].iloc[0] == (["P0.", "Sum."] if len(read) > 1 else ["P0."])
    assert condensed["used"].dtype == bool


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


class Writes(pt.Transformer):
    """Writes an answer for some turns, and "same" for the others."""

    def __init__(self, *answers):
        self.answers = dict(answers)

    def transform(self, inp):
        return inp.assign(qanswer=[self.answers.get(qid, "same") for qid in inp["qid"]])


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


def topics(*conversations):
    items = []
    for number, resolved in conversations:
        turn = {
            "turn_id": 1,
            "utterance": f"u{number}",
            "resolved_utterance": resolved,
            "response": f"r{number}",
            "ptkb_provenance": [1, 2],
        }
        plain = {**turn, "turn_id": 2, "resolved_utterance": "", "ptkb_provenance": []}
        items.append({"number": number, "ptkb": {"1": "a", "2": "b"}, "turns": [turn, plain]})
    return items


def test_examples_are_the_first_conversations_with_a_rewrite(tmp_path):
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(topics(("c1", ""), ("c2", "R2"), ("c3", "R3"))))
    lines = ["About the user: 1: a, 2: b", "user: uc2", "Statements: [1, 2]", "Rewrite: R2"]
    lines += ["Response: rc2", "user: uc2", "Statements: []", "Rewrite: ", "Response: rc2"]
    assert examples_of(1, str(path), rewrites=True) == ["\n".join(lines)]
    shorter = [line for line in lines if not line.startswith("Rewrite")]
    both = examples_of(2, str(path), rewrites=False)
    assert both == ["\n".join(shorter), "\n".join(shorter).replace("c2", "c3")]
    with pytest.raises(UsageError, match="shots=3: .* has 2 conversations to take as examples"):
        examples_of(3, str(path), rewrites=True)
    assert examples_of(0, "no such data", rewrites=True) == []


def test_examples_of_some_data_are_named_in_their_order(tmp_path, monkeypatch):
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(topics(("c1", "R1"), ("c2", "R2"), ("c3", "R3"))))
    monkeypatch.setitem(EXAMPLE_CONVERSATIONS, str(path), ("c3", "c9", "c1"))
    examples = examples_of(2, str(path), rewrites=False)
    assert [example.partition("\nuser: ")[2][:3] for example in examples] == ["uc3", "uc1"]
    with pytest.raises(UsageError, match="has 2 conversations"):
        examples_of(3, str(path), rewrites=False)


@pytest.mark.parametrize(("answer", "limit"), [("One two three.", None), ("One two three four", 3)])
def test_observers_learn_whether_a_response_is_shortened(answer, limit):
    watch = Watch()
    with observed_by(watch):
        ikat.Respond(scripted(answer)[0], words=3)(found(a_turn(), 1))
    assert watch.limits == [limit]


def test_ids_that_are_no_numbers_are_named_with_their_turn():
    check_numbered(["a", "b"], [{"1": "x", "٢": "y"}, {}])
    for wrong in ("P3", "2a", "", "1.5", "²"):
        with pytest.raises(DataError, match=f"turn b: .* the id '{wrong}' is none"):
            check_numbered(["a", "b"], [{"1": "x"}, {"1": "x", wrong: "y"}])


def test_a_choice_of_unknown_statements_is_one_failure():
    frame = pd.concat([a_turn(qid=name, qutterance=f"{name}?") for name in "xyz"])
    llm, _ = scripted("[9, 8]", "prose", "[9, 2]")
    chosen = G.SelectStatements(llm, on_error="fallback")(frame)
    assert chosen["qstatements"].tolist() == [[], [], [("2", 1.0)]]
    totals = llm.ledger.frame()[["failures", "fallbacks", "dropped"]].sum()
    assert totals.tolist() == [2, 2, 1]
    llm, _ = scripted("[9, 8]")
    with pytest.raises(ikat.IkatError, match="all chosen statements are unknown .no statement 9"):
        G.SelectStatements(llm)(a_turn())
    llm, backend = scripted('{"P3": 0.5}', "I own a dog.")
    named = a_turn().assign(qptkb=[{"P3": "I own a dog."}])
    for form in ("scores", "copies"):
        G.SelectStatements(llm, form)(named)
    with pytest.raises(DataError, match="'P3' is none"):
        G.SelectStatements(llm)(named)
    assert len(backend.asked) == 2


def test_shown_statements_are_in_the_order_of_the_choice():
    turn = a_turn(qgoldptkb=[3, "1", "9"], qstatements=[("2", 0.9), ("1", 0.1)])
    assert list(G.ShowStatements("gold")(turn)["qptkb"].item()) == ["3", "1"]
    assert list(G.ShowStatements()(turn)["qptkb"].item()) == ["2", "1"]
    assert G.ShowStatements("9")(turn)["qptkb"].item() == {}
    for wrong in ("all", "", "x"):
        with pytest.raises(UsageError, match="shown"):
            G.ShowStatements(wrong)
    appended = G.AppendStatements()(turn)
    assert appended["query"].item().endswith("cold? I own a dog. I am allergic to chamomile.")


def test_memories_follow_what_was_learned():
    old = {
        "id": "1",
        "statement": "I live in Lyon.",
        "until": None,
        "when": "2024",
        "session": "s",
        "turn": 1,
    }
    gone = {**old, "id": "7", "until": "2023"}
    frame = two_turns().assign(
        qmemories=[[old, gone], None], qptkb=[{"1": "I live in Lyon."}, None]
    )
    said = {"message": 2, "words": "a cold", "statement": "I have a cold.", "replaces": ["1", "7"]}
    llm, _ = scripted(json.dumps([said]), "[]")
    updated = G.UpdatePtkb(llm)(frame)
    assert updated["qptkb"].tolist() == [{"8": "I have a cold."}, {}]
    first, second = updated["qmemories"]
    now = first[2]["when"]
    assert second is None
    assert first == [
        {**old, "until": now},
        gone,
        {
            "id": "8",
            "statement": "I have a cold.",
            "words": "a cold",
            "replaces": ["1"],
            "when": now,
            "until": None,
            "session": "chat",
            "turn": 2,
        },
    ]
    assert old["until"] is None
    assert ledger(llm, "dropped") == 1


ALL_NUMBERED = [
    "user 1: u1",
    "user 2: u2",
    "user 3: u3",
    "user 4: u4",
    "user 5: u5",
    "user 6: u6",
]


@pytest.mark.parametrize(
    ("messages", "shown"),
    [
        (1, ["user: u3", "user: u4", "user: u5", "user 6: u6"]),
        (2, ["user: u2", "user: u3", "user: u4", "user 5: u5", "user 6: u6"]),
        (6, ALL_NUMBERED),
        (9, ALL_NUMBERED),
        (None, ALL_NUMBERED),
    ],
)
def test_the_messages_to_learn_from_are_numbered(messages, shown):
    chat = []
    for number in range(1, 7):
        chat += [{"role": "user", "content": f"u{number}"}, {"role": "assistant", "content": "ok"}]
    llm, backend = scripted(json.dumps([{"message": 4, "words": "u4", "statement": "Four."}]))
    updated = G.UpdatePtkb(llm, messages=messages)(ikat.conversation(chat[:-1]))
    context = texts(backend)[0].partition("# Conversation so far\n")[2].partition("\n\n")[0]
    assert [line for line in context.split("\n") if line.startswith("user")] == shown
    learned = [one["statement"] for one in updated["qlearned"].item()]
    assert learned == (["Four."] if messages in (6, 9, None) else [])


def test_samples_of_several_turns_stay_with_their_turns():
    llm, _ = scripted("a1", "b1", "a2", "b2")
    frame = two_turns().set_axis([5, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampled = ikat.Samples(ikat.Rewrite(llm), 2, columns=["query", "qid"])(frame)
    assert sampled["qsubqueries"].tolist() == [
        ["a1 chat_2", "a2 chat_2"],
        ["b1 other_1", "b2 other_1"],
    ]
    assert sampled["qsamples"].tolist()[1] == [["b1", "other_1"], ["b2", "other_1"]]
    assert sampled["query"].tolist() == ["a1", "b1"]
    with pytest.raises(DataError, match="several rows"):
        ikat.Samples(ikat.Rewrite(llm), 2)(pd.concat([frame, frame]))
    requests = ikat.Samples(ikat.Rewrite(llm), 2).requests(frame)
    shown = [(one.qid, one.sample, one.samples) for one in requests]
    assert shown == [("chat_2", 0, 2), ("other_1", 0, 2), ("chat_2", 1, 2), ("other_1", 1, 2)]


class Encoder(pt.Transformer):
    """The vector of a text is its length and 1; it counts what it encodes."""

    def __init__(self):
        self.texts = []

    def transform(self, inp):
        self.texts += inp["query"].tolist()
        return inp.assign(query_vec=[np.array([len(text), 1.0]) for text in inp["query"]])


def test_the_mean_vector_is_of_all_texts_with_content():
    encoder = Encoder()
    frame = pd.DataFrame(
        {
            "qid": ["1", "2"],
            "query": "q",
            "qsamples": [[["ab", ""], ["abcd", "a"]], [["ab"]]],
            "also": ["abcdef", ""],
        }
    )
    mean = G.Aggregate("mean", encoder, also="also")(frame)
    assert [vector.tolist() for vector in mean["query_vec"]] == [[13 / 4, 1.0], [2.0, 1.0]]
    assert mean["query"].tolist() == ["ab", "ab"]
    assert sorted(encoder.texts) == ["a", "ab", "abcd", "abcdef"]
    first = G.Aggregate("first", also="also")(frame)
    assert first["query"].tolist() == ["ab abcdef", "ab"]
    assert G.Aggregate()(frame.drop(columns="qsamples"))["query"].tolist() == ["q", "q"]
    assert encode({""}, encoder) == {}
    assert joined(["", "a", "", "b"]) == "a b"
    assert word_vectors(["A a b", ""]).round(3).tolist() == [[0.894, 0.447], [0.0, 0.0]]


def ranking(docnos, scores, times=1):
    return QueryRanking(np.array(list(docnos), dtype=object), np.array(scores, dtype=float), times)


def test_the_values_of_rankings_by_hand():
    one = ranking("abc", [3, 2, 1])
    other = ranking("bd", [5, 1])
    assert mean_score([one, other], 2).tolist() == [2.5, 3.0]
    assert mean_score([one, other], 9).tolist() == [2.0, 3.0]
    assert spread([one, other], 2).round(6).tolist() == [0.2, round(2 / 3, 6)]
    # 1/61 each for a and b, and 1/62 for b and d: b, a, d, c
    assert agreement([one, other], 2).tolist() == [2.0, 1.0]
    assert agreement([one, ranking("bd", [5, 1], 3)], 2).tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="mean score that is not above 0"):
        spread([one, ranking("a", [0])], 2)


def test_a_file_of_queries_is_read_line_by_line(tmp_path):
    path = tmp_path / "q.tsv"
    path.write_text("\ufeffa\tIs it? \n\n b \tTea\tand more\n", encoding="utf-8")
    file = QueryFile(str(path))
    assert file.queries == {"a": "Is it?", "b": "Tea\tand more"}
    assert repr(file) == repr(str(path))
    other = tmp_path / "other.tsv"
    other.write_text("a\tIs it\nb\tTea\tand more\n")
    same = tmp_path / "same.tsv"
    same.write_text("a\tIs it?\nb\tTea\tand more")
    assert QueryFile(str(same)).fingerprint() == file.fingerprint()
    assert QueryFile(str(other)).fingerprint() != file.fingerprint()
    for text, part in (
        ("a\tx\na\tx", "line 2: turn a has a query already"),
        ("a\tx\n\nb", "line 3: 'b' is no turn, a tab and its query"),
        ("\tx", "line 1"),
        ("a\t ", "line 1"),
        (" \n", "has no query"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=part):
            _ = QueryFile(str(path)).queries
    given = G.GivenQueries(str(same))
    frame = pd.DataFrame({"qid": ["b", "a"], "query": ["x", "y"]})
    out = given(frame)
    assert out["qrewrite"].tolist() == out["query"].tolist() == ["Tea\tand more", "Is it?"]
    with pytest.raises(DataError, match=r"no query of 1 turn of 2 \(c\); its 2 turns are like a"):
        given(frame.assign(qid=["a", "c"]))


def test_past_words_of_the_highest_weights_are_added():
    weights = {"which": 0.5, "tea": 3.0, "mint": 2.0, "has": 2.0, "no": 1.0}
    asked = []

    def search(frame):
        asked.extend(frame["query"])
        rows = []
        for qid in frame["qid"]:
            if qid in weights:
                rows.append((qid, "d", weights[qid] - 1))
                rows.append((qid, "d", weights[qid]))
        return pd.DataFrame(rows, columns=["qid", "docno", "score"])

    chat = [{"role": "user", "content": "Which TEA has mint, which no mint?"}, *CHAT[1:2]]
    frame = ikat.conversation([*chat, {"role": "user", "content": "Mint or has?"}])
    expand = G.HistoricalQueryExpansion(pt.apply.generic(search), 2)
    assert expand(frame)["query"].item() == "Mint or has? tea no"
    assert asked == ["has", "mint", "no", "tea", "which"]
    assert expand(ikat.conversation(CHAT[:1]))["query"].item() == CHAT[0]["content"]
    assert len(asked) == 5


def test_appended_queries_go_by_their_turns():
    backwards = pt.apply.generic(lambda frame: frame.assign(query=frame["qid"])[::-1])
    frame = pd.DataFrame({"qid": ["a", "b"], "query": ["x", "y"]})
    assert G.AppendQuery(backwards)(frame)["query"].tolist() == ["x a", "y b"]
    for wrong in (
        lambda rows: rows[:1],
        lambda rows: rows.assign(qid=["a", "c"]),
        lambda rows: pd.concat([rows, rows]),
    ):
        with pytest.raises(DataError, match="gave . rows? for 2 turns"):
            G.AppendQuery(pt.apply.generic(wrong))(frame)


def test_all_messages_are_joined_in_either_order():
    chat = [*CHAT[:1], {"role": "assistant", "content": " "}, *CHAT]
    frame = ikat.conversation(chat)
    tea, rooibos, cold = (message["content"] for message in CHAT)
    assert ikat.AllUtterances()(frame)["query"].item() == f"{tea} {tea} {cold}"
    every = ikat.AllUtterances(responses=True, newest_first=True, separator="|")(frame)
    assert every["query"].item() == f"{cold}|{rooibos}|{tea}|{tea}"
    assert len(frame["qhistory"].item()) == 4


def test_an_enhanced_history_is_a_new_one():
    frame = two_turns()
    llm, _ = scripted("new topic")
    switched = G.Enhance(llm, "topic")(frame)
    assert switched["qnewtopic"].tolist() == [True, False]
    assert switched["qhistory"].tolist() == [CHAT[:2], []]
    longer = ikat.conversation([*CHAT, {"role": "assistant", "content": "Mint."}, *CHAT[:1]])
    llm, _ = scripted("new topic", "It is mint.")
    assert G.Enhance(llm, "topic")(longer)["qhistory"].item() == [
        CHAT[2],
        {"role": "assistant", "content": "Mint."},
    ]
    said = G.Enhance(llm, "response")(longer)["qhistory"].item()
    assert [message["content"] for message in said] == [
        *[message["content"] for message in CHAT],
        "It is mint.",
    ]
    assert longer["qhistory"].item()[3]["content"] == "Mint."
    new = two_turns().assign(qnewtopic=[True, None])
    asks = {"guess": 0, "summary": 1, "topic": 1, "personal_response": 0, "response": 1}
    for form, number in asks.items():
        assert len(G.Enhance(llm, form).requests(new)) == number, form


@pytest.mark.parametrize(
    ("form", "text", "read"),
    [
        ("rewrite", "Rewrite: a?\nResponse: b: c", ("a?", "b: c", ())),
        ("queries", "Response: b\nQueries: 1. q 2. r", ("1. q 2. r", "b", ())),
        ("select", "Statements: [2, 1]\nRewrite: a?\nResponse: b", ("a?", "b", ["2", "1"])),
        ("select", "Rewrite: a?\nResponse: b", None),
        ("queries", "Rewrite: a?\nResponse: b", None),
    ],
)
def test_a_published_completion_is_taken_as_it_is(form, text, read):
    from pyterrier_ikat.conversations.public_outputs import read_parts

    found = G.Reformulate(scripted()[0], form)._as_published(read_parts(text))
    assert (found if found is None else tuple(found)) == read
