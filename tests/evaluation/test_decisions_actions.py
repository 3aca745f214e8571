"""Actions of systems against labels: precision, recall and F1 with their intervals."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from small_frames import folder, qrels, run

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.completions.verdicts import ACTIONS
from pyterrier_ikat.conversations.topics import ANSWERABILITY
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import evaluate_actions
from pyterrier_ikat.evaluation.decisions import (
    labels_by_turn,
)
from pyterrier_ikat.evaluation.inference import interval_of_share, standard_error

LETTERS = {
    "u": "unanswerable",
    "a": "answerable",
    "p": "partial",
    "c": "conversational",
    "d": "underspecified",
    "-": "",
}
TAKEN = {"A": "answer", "Q": "ask", "N": "abstain", "-": None}


def answers(letters):
    return pd.DataFrame(
        {
            "qid": list(map(str, range(len(letters)))),
            "gold_answerability": [LETTERS[letter] for letter in letters],
        }
    )


def system(letters):
    return pd.DataFrame(
        {
            "qid": list(map(str, range(len(letters)))),
            "qaction": [TAKEN[letter] for letter in letters],
        }
    )


def test_abstaining_is_compared_with_the_unanswerable_turns():
    # labelled 4 (u), chosen 5 (N), both 3: precision 3/5, recall 3/4, F1 = 2 * 3 / (5 + 4)
    [row] = (
        evaluate_actions({"ours": system("NNNAAANNAQ")}, answers("uuuuaapcad"))
        .query("action == 'abstain'")
        .to_dict("records")
    )
    assert (row["turns"], row["labelled"], row["chosen"], row["right"]) == (10, 4, 5, 3)
    assert (row["precision"], row["recall"], row["F1"]) == pytest.approx((3 / 5, 3 / 4, 6 / 9))


def test_asking_is_evaluated_only_on_turns_labelled_for_it():
    both = evaluate_actions({"ours": system("NQQA")}, answers("udad"))
    assert both["action"].tolist() == ["abstain", "ask"]
    assert both.iloc[1][["labelled", "chosen", "right", "precision", "recall"]].tolist() == [
        2,
        2,
        1,
        0.5,
        0.5,
    ]
    assert evaluate_actions({"ours": system("NQQA")}, answers("upac"))["action"].tolist() == [
        "abstain"
    ]


@given(
    st.integers(1, 500).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_wilsons_bounds_are_where_the_shares_normal_score_is_z(pair, level):
    from statistics import NormalDist

    right, of = pair
    share = right / of
    z = NormalDist().inv_cdf((1 + level) / 2)
    for bound in interval_of_share(
        [place < right for place in range(of)], [str(place) for place in range(of)], level=level
    ):
        assert 0 <= bound <= 1
        assert (share - bound) ** 2 == pytest.approx(z**2 * bound * (1 - bound) / of, abs=1e-12)


def test_turns_moving_with_conversations_widen_shares_intervals():
    """Three conversations of four turns, right as a whole or not at all.

    The design effect is 11 / 3 or more.
    """
    hits = [True] * 8 + [False] * 4
    of_turn = list("abcdefghijkl")
    of_chat = list("aaaabbbbcccc")
    plain = interval_of_share(hits, of_turn)
    robust = interval_of_share(hits, of_chat)
    assert robust[0] < plain[0] < 2 / 3 < plain[1] < robust[1]
    error, freedom = standard_error(
        np.array(hits) - 2 / 3, np.repeat([0, 1, 2], 4), np.array([4.0, 4.0, 4.0])
    )
    effect = error**2 / (2 / 9 / 11)
    assert (effect, freedom) == (pytest.approx(11 / 2), pytest.approx(2))
    enough = 12 / effect * (stats.t.ppf(0.975, 11) / stats.t.ppf(0.975, 2)) ** 2
    z = stats.norm.ppf(0.975)
    for bound in robust:
        assert (2 / 3 - bound) ** 2 == pytest.approx(z**2 * bound * (1 - bound) / enough)
    assert interval_of_share([True] * 12, of_chat) == pytest.approx(
        interval_of_share([True] * 3, list("abc"))
    )
    assert np.isnan(interval_of_share([True, False], ["a", "a"])).all()


def test_actions_have_the_intervals_of_their_conversations():
    qids = ["0_0", "0_1", "0_2", "0_3", "1_0", "1_1", "1_2", "1_3", "2_0", "2_1", "2_2", "2_3"]
    labels = answers("u" * 12).assign(qid=qids)
    ours = system("N" * 8 + "A" * 4).assign(qid=qids)
    [row] = evaluate_actions({"ours": ours}, labels).to_dict("records")
    assert (row["unit"], row["clusters"], row["unit_from"]) == ("conversation", 3, "qid")
    assert (row["recall_low"], row["recall_high"]) == interval_of_share(
        [True] * 8 + [False] * 4, list("aaaabbbbcccc")
    )
    [by_turn] = evaluate_actions({"ours": ours}, labels, unit="turn").to_dict("records")
    assert by_turn["recall_low"] > row["recall_low"]


@given(
    st.lists(
        st.tuples(st.sampled_from(ANSWERABILITY), st.sampled_from(ACTIONS)), min_size=1, max_size=40
    )
)
def test_scores_equal_those_of_a_plain_count(pairs):
    known = pd.DataFrame(
        {
            "qid": [str(number) for number in range(len(pairs))],
            "gold_answerability": [label for label, _ in pairs],
        }
    )
    ours = pd.DataFrame({"qid": known["qid"], "qaction": [action for _, action in pairs]})
    for row in evaluate_actions({"ours": ours}, known).to_dict("records"):
        wanted = {"abstain": "unanswerable", "ask": "underspecified"}[row["action"]]
        true = 0
        wrong = 0
        missed = 0
        for label, action in pairs:
            if label == wanted and action == row["action"]:
                true += 1
            elif action == row["action"]:
                wrong += 1
            elif label == wanted:
                missed += 1
        expected = [
            true / (true + wrong) if true + wrong else math.nan,
            true / (true + missed) if true + missed else math.nan,
            2 * true / (2 * true + wrong + missed) if true + wrong + missed else math.nan,
        ]
        assert [row["precision"], row["recall"], row["F1"]] == pytest.approx(expected, nan_ok=True)
        for name in ("precision", "recall", "F1"):
            assert math.isnan(row[name]) == math.isnan(row[f"{name}_low"])
            assert (
                math.isnan(row[name])
                or row[f"{name}_low"] - 1e-9 <= row[name] <= row[f"{name}_high"] + 1e-9
            )


def test_turns_without_decision_count_as_answered_and_are_named():
    with pytest.warns(
        UserWarning, match=r"ours made no decision for 2 of 4 turns \(1, 3\): counted as answered"
    ):
        [row] = evaluate_actions({"ours": system("N-N")}, answers("uuau")).to_dict("records")
    assert (row["labelled"], row["chosen"], row["right"], row["recall"]) == (3, 2, 1, 1 / 3)


def test_only_labelled_turns_count_though_results_repeat_turns():
    several = pd.concat([system("NNA")] * 3, ignore_index=True)
    [row] = evaluate_actions({"ours": several}, answers("u-a")).to_dict("records")
    assert (row["turns"], row["chosen"], row["precision"]) == (2, 1, 1.0)


@pytest.mark.parametrize(
    ("ours", "known", "error", "word"),
    [
        (system("NA"), answers("--"), UsageError, "nothing says which turns have an answer"),
        (
            system("NA"),
            answers("ua")[["qid"]],
            UsageError,
            "nothing says which turns have an answer",
        ),
        (
            system("NA"),
            answers("ua").assign(gold_answerability="maybe"),
            DataError,
            "turn 0: .* 'maybe'",
        ),
        (system("NA"), pd.concat([answers("ua")] * 2), DataError, "turn 0 occurs twice"),
        (system("NA")[["qid"]], answers("ua"), UsageError, "no column qaction"),
        (system("--"), answers("ua"), UsageError, "ours made no decision"),
        (system("NA").assign(qaction="refuse"), answers("ua"), DataError, "turn 0: .* 'refuse'"),
        (
            pd.concat([system("NA"), system("AA")]),
            answers("ua"),
            DataError,
            "turn 0 has rows with different qaction",
        ),
        (
            system("NA").assign(qid=["x_1", "x_2"]),
            answers("ua"),
            DataError,
            "ours has no turn with a label: its turns are like x_1",
        ),
    ],
)
def test_what_is_wrong_is_named(ours, known, error, word):
    with pytest.raises(error, match=word):
        evaluate_actions({"ours": ours}, known)


class Abstains:
    """Abstains where a prompt shows the word soup, and says nothing useful otherwise."""

    def generate(self, prompts):
        replies = []
        for prompt in prompts:
            action = "abstain" if "soup" in str(prompt) else "answer"
            replies.append(SimpleNamespace(text=json.dumps({"action": action})))
        return replies


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.NotJudgedWarning")
def test_a_run_keeps_its_actions_and_the_command_evaluates_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    turn = (
        '{{"qid": "{0}_1", "messages": [{{"role": "user", "content": "{1}"}}], '
        '"answerability": "{2}"}}\n'
    )
    asked = [
        ("a", "Is there soup today?", "unanswerable"),
        ("b", "Is there tea?", "answerable"),
        ("c", "More soup?", "answerable"),
    ]
    (tmp_path / "mine" / "topics.jsonl").write_text("".join(turn.format(*row) for row in asked))
    (tmp_path / "mine" / "passages.jsonl").write_text(
        '{"docno": "d1", "text": "There is tea, more today."}\n'
    )
    (tmp_path / "mine" / "qrels.txt").write_text("b_1 0 d1 1\n")
    data = ikat.dataset("./mine")
    bm25 = ikat.PassageIndex("mine.index").index(data.get_corpus_iter(verbose=False)).bm25()
    ikat.run({"ours": bm25 % 3 >> ikat.generate.Decide(Abstains())}, data, out="runs")
    # abstained on a and c, which ask for soup, and only a has no answer
    [row] = evaluate_actions({"ours": "runs/ours"}, data.get_answers()).to_dict("records")
    assert (row["labelled"], row["chosen"], row["right"], row["precision"], row["recall"]) == (
        1,
        2,
        1,
        0.5,
        1.0,
    )
    done = CliRunner().invoke(
        main, ["evaluate", "--of", "actions", "runs/ours", "--dataset", "./mine"]
    )
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines()]
    assert lines[1][:9] == ["ours", "abstain", "3", "1", "2", "1", ".5000", ".0945", ".9055"]
    one = CliRunner().invoke(
        main,
        ["evaluate", "--of", "actions", "runs/ours", "--dataset", "./mine", "--turns", "a_1,b_1"],
    )
    assert one.output.splitlines()[1].split()[:7] == [
        "ours",
        "abstain",
        "2",
        "1",
        "1",
        "1",
        "1.0000",
    ]
    none = CliRunner().invoke(
        main, ["evaluate", "--of", "actions", "runs/ours", "--dataset", "ikat:sample"]
    )
    assert (
        none.exit_code,
        none.output.startswith("ikat: nothing says which turns have an answer"),
    ) == (2, True)


def test_labels_of_turns_leave_out_turns_without_one():
    answers = pd.DataFrame(
        {"qid": ["a", "b", "c"], "gold_answerability": ["answerable", None, "unanswerable"]}
    )
    assert labels_by_turn(answers) == {"a": "answerable", "c": "unanswerable"}
    with pytest.raises(UsageError, match="nothing says which turns have an answer"):
        labels_by_turn(answers[["gold_answerability"]])


def test_actions_are_scored_over_the_chosen_turns():
    answers = pd.DataFrame(
        {
            "qid": ["a", "b", "c", "d"],
            "gold_answerability": ["unanswerable", "underspecified", "answerable", "unanswerable"],
        }
    )
    ours = pd.DataFrame({"qid": list("abcd"), "qaction": ["abstain", "ask", "ask", "answer"]})
    whole = evaluate_actions({"x": ours, "y": ours}, answers)
    assert whole["name"].tolist() == ["x", "x", "y", "y"]
    assert whole["action"].tolist() == ["abstain", "ask"] * 2
    assert whole["turns"].tolist() == [4] * 4
    assert whole["precision"].tolist() == [1.0, 0.5] * 2
    assert whole["recall"].tolist() == [0.5, 1.0] * 2
    assert whole["F1"].tolist() == pytest.approx([2 / 3, 2 / 3] * 2)
    part = evaluate_actions({"x": ours}, answers, turns=["a", "c"])
    assert part[["action", "turns", "labelled", "chosen", "right"]].values.tolist() == [
        ["abstain", 2, 1, 1, 1]
    ]
    # F1 is 2 J / (1 + J): its bounds are those of J, converted
    low, high = whole.loc[1, ["F1_low", "F1_high"]]
    for bound, share in ((low, 0.0945), (high, 0.9055)):  # Wilson's for 1 of 2
        assert bound == pytest.approx(2 * share / (1 + share), abs=1e-3)


class Chats:
    """Six turns in three conversations that their ids don't name."""

    name = "chats"

    def get_topics(self, variant=None):
        return pd.DataFrame({"qid": list("abcdef"), "query": "?", "qconversation": list("xxyyzz")})

    def get_qrels(self, variant=None):
        return qrels(("a", "d", 1))


def test_actions_have_the_clusters_of_dataset_frame_or_unit(tmp_path):
    labels = pd.DataFrame({"qid": list("abcdef"), "gold_answerability": "unanswerable"})
    ours = pd.DataFrame({"qid": list("abcdef"), "qaction": ["abstain", "answer"] * 3})
    chats = Chats().get_topics()
    for frame, options, unit, clusters in (
        (ours, {}, "turn", 6),
        (ours, {"dataset": Chats()}, "conversation", 3),
        (ours, {"dataset": Chats(), "unit": "turn"}, "turn", 6),
        (ours.merge(chats[["qid", "qconversation"]]), {}, "conversation", 3),
    ):
        row = evaluate_actions({"x": frame}, labels, **options).iloc[0]
        assert (row["unit"], row["clusters"]) == (unit, clusters)
    made = folder(tmp_path / "mine", run(a="d", b="d"), list("abcd"))
    lines = [{"qid": qid, "qaction": "abstain"} for qid in "abcd"]
    (made.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = evaluate_actions({"mine": made.path, "x": ours}, labels)
    assert table["turns"].tolist() == [4, 4]
    assert table["right"].tolist() == [4, 2]
    assert table.attrs["turns"] == ["Mean over 4 judged turns, those that mine was asked, of 6."]
    chosen = evaluate_actions({"mine": made.path}, labels, turns=["a", "b"])
    assert chosen["turns"].tolist() == [2]
    assert "Mean over 2 judged turns." in chosen.attrs["turns"]
    with pytest.warns(UserWarning, match=r"mine made no decision for 1 of 2 turns \(f\)"):
        evaluate_actions({"mine": made.path}, labels, turns=["a", "f"])
    nothing = evaluate_actions({"x": ours.assign(qaction="answer")}, labels).iloc[0]
    assert [nothing["turns"], nothing["chosen"], nothing["recall"]] == [6, 0, 0.0]
    assert pd.isna(nothing["precision"])
    with pytest.raises(DataError, match="turn a: the action is 'refuse'"):
        evaluate_actions({"x": ours.assign(qaction="refuse")}, labels)
    empty = ours.assign(qaction=["abstain", "", None, "ask", "answer", "answer"])
    with pytest.warns(UserWarning, match=r"x made no decision for 2 of 6 turns \(b, c\)"):
        row = evaluate_actions({"x": empty}, labels).iloc[0]
    assert (row["chosen"], row["right"]) == (1, 1)


def test_actions_of_folders_that_were_asked_other_turns_are_told(tmp_path):
    labels = pd.DataFrame({"qid": list("abc"), "gold_answerability": "unanswerable"})
    folders = {}
    for name, qids in (("one", "ab"), ("two", "a")):
        made = folder(tmp_path / name, run(a="d"), list(qids))
        lines = [{"qid": qid, "qaction": "abstain"} for qid in qids]
        (made.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
        folders[name] = made.path
    assert evaluate_actions(folders, labels).attrs["turns"] == [
        "Mean over 1 judged turn, those that all runs were asked, of 3.",
        "The runs were asked different judged turns: one 2, two 1.",
    ]
