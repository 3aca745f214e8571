"""A ranking that is there already in the place of a retriever."""

import pickle

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.operator import parts_of
from pyterrier_ikat.runs import write_run
from pyterrier_ikat.study import NotJudgedWarning

ROWS = [("1_1", "b", 3.0, 0), ("1_1", "a", 2.0, 1), ("1_2", "c", 1.0, 0)]
RUN = pd.DataFrame(ROWS, columns=["qid", "docno", "score", "rank"])
TEXTS = {"a": "Mint tea.", "b": "Rooibos tea.", "c": "Green tea."}
TURNS = pd.DataFrame({"qid": ["1_2", "1_1"], "query": ["green?", "tea?"], "qutterance": ["x", "y"]})


@pytest.fixture
def path(tmp_path):
    write_run(RUN, tmp_path / "given.trec")
    return tmp_path / "given.trec"


TestGivenRanking = pt.testing.transformer_test_class(lambda: ikat.GivenRanking("given.trec"))


def test_each_turn_gets_its_passages_whatever_its_query_is(path):
    texts = pt.apply.generic(
        lambda found: found.assign(text=[TEXTS[docno] for docno in found["docno"]])
    )
    found = ikat.GivenRanking(path, texts)(TURNS)
    assert found[["qid", "docno", "score", "rank", "text"]].values.tolist() == [
        ["1_2", "c", 1.0, 0, "Green tea."],
        ["1_1", "b", 3.0, 0, "Rooibos tea."],
        ["1_1", "a", 2.0, 1, "Mint tea."],
    ]
    assert found["query"].tolist() == ["green?", "tea?", "tea?"]
    assert found["qutterance"].tolist() == ["x", "y", "y"]
    assert (ikat.GivenRanking(path) % 1)(TURNS)["docno"].tolist() == ["c", "b"]


def test_a_turn_the_run_lacks_and_an_unreadable_run_are_named(path, tmp_path):
    with pytest.warns(NoResultWarning, match="1 of 2 turns found no passage: 9_9"):
        found = ikat.GivenRanking(path)(TURNS.assign(qid=["1_2", "9_9"]))
    assert found["docno"].tolist() == ["c"]
    with pytest.raises(DataError, match="nothing.trec"):
        ikat.GivenRanking(tmp_path / "nothing.trec")(TURNS)


def test_two_runs_of_one_name_are_told_apart(path):
    [before] = [part.fingerprint() for part in parts_of(ikat.GivenRanking(path))]
    write_run(RUN.assign(score=RUN["score"] + 1), path)
    [after] = [part.fingerprint() for part in parts_of(ikat.GivenRanking(path))]
    assert before != after
    assert repr(ikat.GivenRanking("given.trec")) == "ikat.GivenRanking('given.trec')"


def test_responses_are_written_to_another_systems_run_passages(tmp_path):
    data = ikat.dataset("ikat:sample")
    index = ikat.PassageIndex(tmp_path / "index").index(data.get_corpus_iter(verbose=False))
    ikat.run(["human_qr"], "ikat:sample", index=index.path, out=tmp_path / "runs")
    given = ikat.GivenRanking(tmp_path / "runs" / "human_qr", index.text_loader())
    system = ikat.methods.generation_only(ikat.llm("recorded:sample"), given)
    ikat.run({"answers": system}, "ikat:sample", out=tmp_path / "runs")
    first = ikat.runs.RunFolder(tmp_path / "runs" / "human_qr")
    second = ikat.runs.RunFolder(tmp_path / "runs" / "answers")
    assert second.results()[["qid", "docno", "rank"]].equals(
        first.results()[["qid", "docno", "rank"]]
    )
    for turn in second.turns():
        assert turn["response"]
        assert len(turn["used"]) == 5


@pytest.mark.parametrize("index", [[7, 7, 7], ["x", "y", "z"]])
def test_a_frame_is_given_like_its_run_file(path, index):
    shuffled = RUN.sample(frac=1, random_state=2).drop(columns="rank").set_axis(index)
    found = ikat.GivenRanking(shuffled)(TURNS)
    expected = ikat.GivenRanking(path)(TURNS)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    given = ikat.GivenRanking(shuffled)
    assert given == ikat.GivenRanking(RUN)  # the same rows
    assert hash(given) == hash(ikat.GivenRanking(RUN))
    assert given != ikat.GivenRanking(RUN[:2])
    assert [part.fingerprint() for part in parts_of(given)] == [
        part.fingerprint() for part in parts_of(ikat.GivenRanking(RUN))
    ]
    assert repr(given) == "ikat.GivenRanking(<3 passages of 2 turns>)"
    shuffled["docno"] = "changed later"
    pd.testing.assert_frame_equal(given(TURNS), found)
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(given))(TURNS), found)


def test_a_frame_brings_its_texts_and_its_ids_may_be_numbers():
    given = pd.DataFrame(
        {"qid": [1, 1], "docno": [8, 9], "score": [1, 2], "text": ["Mint.", "Rooibos."]}
    )
    found = ikat.GivenRanking(given)(pd.DataFrame({"qid": ["1"], "query": ["tea?"]}))
    assert found[["docno", "score", "rank", "text"]].values.tolist() == [
        ["9", 2.0, 0, "Rooibos."],
        ["8", 1.0, 1, "Mint."],
    ]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (RUN.drop(columns="score"), "has no column score, only qid, docno, rank"),
        (pd.DataFrame([["1_1", "a"]]), "has no column qid, docno, score, only 0, 1: give"),
        (RUN.assign(score=[1.0, float("nan"), 2.0]), "passage a of turn 1_1 has the score nan"),
        (pd.concat([RUN, RUN[:1]]), "has passage b of turn 1_1 twice"),
        (pd.concat([RUN, RUN[:1].assign(score=9.0)]), "has passage b of turn 1_1 twice"),
        (RUN.assign(docno=[1.5, "a", "b"]), "the docno 1.5 is not a text"),
        (RUN.assign(docno=[1.5, 2.0, 3.0]), "the docno 1.5 is not a text"),
    ],
)
def test_a_frame_that_is_no_ranking_is_refused(frame, message):
    with pytest.raises(DataError, match=message):
        ikat.GivenRanking(frame)


@pytest.mark.parametrize("given", [None, [RUN], {"a": "run.trec"}, 3])
def test_what_is_neither_a_path_nor_a_frame_is_refused(given):
    with pytest.raises(
        ikat.UsageError, match="give a run file, the folder of a finished run, or a result frame"
    ):
        ikat.GivenRanking(given)


def test_the_batches_of_a_run_that_is_not_finished_are_refused(tmp_path):
    folder = tmp_path / "mine.partial"
    folder.mkdir()
    write_run(RUN, folder / "000000.run.trec")
    (folder / "000000.turns.jsonl").write_text('{"qid": "1_1"}\n{"qid": "1_2"}\n')
    (folder / "run.json").write_text("{}")
    with pytest.raises(DataError, match="is not a finished run"):
        ikat.GivenRanking(folder)(TURNS)


def test_two_frames_in_one_study_are_told_apart(tmp_path):
    data = ikat.dataset("ikat:sample")
    run = (
        ikat.PassageIndex(tmp_path / "index")
        .index(data.get_corpus_iter(verbose=False))
        .bm25()(data.get_topics())
    )
    ikat.run({"a": ikat.GivenRanking(run)}, "ikat:sample", out=tmp_path / "runs")
    ikat.run({"a": ikat.GivenRanking(run.copy())}, "ikat:sample", out=tmp_path / "runs")
    folder = ikat.runs.RunFolder(tmp_path / "runs" / "a")  # as in the results of a run
    assert ikat.GivenRanking(folder)(data.get_topics())["docno"].tolist() == run["docno"].tolist()
    with pytest.raises(ikat.UsageError, match="holds a run with different parts"):
        ikat.run(
            {"a": ikat.GivenRanking(run[run["rank"] < 5])}, "ikat:sample", out=tmp_path / "runs"
        )


def test_a_frame_with_texts_feeds_a_response_in_a_run(tmp_path):
    """A run looks at the columns of a system before it begins."""

    class Writes:
        def generate(self, chats):
            return ["Mint."] * len(chats)

    given = pd.DataFrame({"qid": ["1"], "docno": ["8"], "score": [1.0], "text": ["Mint."]})
    system = ikat.GivenRanking(given) >> ikat.Respond(ikat.llm(Writes()))
    with pytest.warns(
        NotJudgedWarning, match="none of the turns is judged: there will be no scores"
    ):
        found = ikat.run(
            {"mine": system}, topics=pd.DataFrame({"qid": ["1"], "query": ["tea?"]}), out=tmp_path
        )
    assert [turn["response"] for turn in found.folders["mine"].turns()] == ["Mint."]


def test_columns_of_passages_are_those_of_the_given_run(path):
    earlier = TURNS.assign(score=9.0, rank=5, text="old")
    with pytest.warns(NoResultWarning, match="1 of 2 turns found no passage: 9_9"):
        found = ikat.GivenRanking(path)(earlier.assign(qid=["9_9", "1_1"]))
    assert found.to_dict("list") == {
        "qid": ["1_1", "1_1"],
        "query": ["tea?", "tea?"],
        "qutterance": ["y", "y"],
        "docno": ["b", "a"],
        "score": [3.0, 2.0],
        "rank": [0, 1],
    }
    with pytest.raises(DataError, match="1_1"):
        ikat.GivenRanking(path)(TURNS.assign(qid="1_1"))
    with pytest.raises(DataError, match="query"):
        ikat.GivenRanking(path)(TURNS.drop(columns="query"))


def test_no_turn_reads_no_run_and_has_its_columns(tmp_path):
    missing = ikat.GivenRanking(tmp_path / "nothing.trec")(TURNS[:0])
    assert missing.columns.tolist() == ["qid", "query", "qutterance", "docno", "score", "rank"]
    assert len(missing) == 0
    frame = ikat.GivenRanking(RUN.assign(text="Tea."))(TURNS[:0])
    assert frame.columns.tolist() == [*missing.columns[:4], "text", "score", "rank"]
    assert len(frame) == 0


def test_equal_scores_of_a_frame_stay_equal_by_docno():
    tied = pd.DataFrame({"qid": "1_1", "docno": ["a", "c", "b"], "score": ["1", 2, 2.0]})
    found = ikat.GivenRanking(tied)(TURNS[1:])
    assert found[["docno", "score", "rank"]].values.tolist() == [
        ["c", 2.0, 0],
        ["b", 2.0, 1],
        ["a", 1.0, 2],
    ]


@pytest.mark.parametrize(
    ("score", "shown"), [(float("inf"), "inf"), (float("-inf"), "-inf"), ("high", "high")]
)
def test_the_first_score_that_is_no_number_is_named(score, shown):
    frame = RUN.assign(score=pd.Series([1.0, score, float("nan")], dtype=object))
    with pytest.raises(DataError, match=f"passage a of turn 1_1 has the score {shown}"):
        ikat.GivenRanking(frame)


def test_an_empty_frame_and_a_turn_without_id_are_refused():
    with pytest.raises(DataError, match="has no column qid, docno, score, only none"):
        ikat.GivenRanking(pd.DataFrame())
    with pytest.raises(DataError, match="qid"):
        ikat.GivenRanking(RUN.assign(qid=["1_1", None, "1_2"]))


def test_one_passage_of_two_turns_is_no_repetition():
    given = ikat.GivenRanking(RUN.assign(docno=["a", "b", "a"]))
    assert given(TURNS)["docno"].tolist() == ["a", "a", "b"]
    assert given != ikat.GivenRanking("given.trec")
    assert given.path != "given.trec"


def test_a_run_and_its_texts_are_parts_of_an_identity(path):
    texts = pt.apply.generic(lambda found: found.assign(text="x"))
    given = ikat.GivenRanking(path, texts)
    assert given.parts()[1] is texts
    assert given.path == str(path)
    assert given == ikat.GivenRanking(str(path), texts)
    assert ikat.GivenRanking(path).parts()[1:] == [None]


def test_what_is_no_ranking_is_shown_in_short():
    with pytest.raises(ikat.UsageError) as refused:
        ikat.GivenRanking(["long"] * 99)
    assert len(str(refused.value)) < 200


def test_texts_of_a_loader_go_before_those_of_a_frame():
    loader = pt.apply.generic(lambda found: found.assign(text="new " + found["docno"]))
    found = ikat.GivenRanking(RUN.assign(text="old"), loader)(TURNS[:1])
    assert found["text"].tolist() == ["new c"]


def test_a_turn_with_passages_has_the_columns_of_none(path):
    given = ikat.GivenRanking(path)
    columns = ["qid", "query", "qutterance", "docno", "score", "rank"]
    assert given(TURNS).columns.tolist() == given(TURNS[:0]).columns.tolist() == columns


def test_numbers_of_turns_or_of_passages_alone_are_ids():
    turn = pd.DataFrame({"qid": ["1"], "query": ["tea?"]})
    texts = pd.DataFrame({"qid": ["1", "1"], "docno": ["8", "9"], "score": [1.0, 2.0]})
    for numbers in ({"qid": [1, 1]}, {"docno": [8, 9]}, {"qid": [1, 1], "docno": [8, 9]}):
        found = ikat.GivenRanking(texts.assign(**numbers))(turn)
        assert found["docno"].tolist() == ["9", "8"]


def test_a_folder_without_a_finished_run_is_named(tmp_path):
    (tmp_path / "mine.partial").mkdir()
    for name in ("mine.partial", "mine"):
        with pytest.raises(ikat.IkatError, match=f"/{name}[: ]"):
            ikat.GivenRanking(tmp_path / name)(TURNS)
