import pandas as pd
import pytest
from small_runs import ranking

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.show.report.material import RunData
from pyterrier_ikat.show.report.rankings import OPEN_WORDS, passages_by_turn, word_limit

QRELS = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["a", "c"], "label": [3, 0]})


def listed(*runs, depth=2, qrels=QRELS, texts=None):
    return passages_by_turn([RunData(str(number), *run) for number, run in enumerate(runs)], qrels, texts, depth)[:2]


def test_each_run_has_its_list_with_the_ranks_in_the_runs_that_it_is_compared_with():
    one = (ranking([("1_1", "a", 5.0), ("1_1", "b", 4.0), ("1_1", "c", 3.0)]),)
    two = (ranking([("1_1", "b", 0.9), ("1_1", "d", 0.8), ("1_1", "a", 0.7)]),)
    found, _ = listed(one, two, one)
    assert [[(passage.rank, passage.docno, passage.score, passage.elsewhere) for passage in run] for run in found["1_1"]] == [
        [(1, "a", 5.0, [(1, 3), (2, 1)]), (2, "b", 4.0, [(1, 1), (2, 2)])],
        [(1, "b", 0.9, [(0, 2)]), (2, "d", 0.8, [(0, None)])],
        [(1, "a", 5.0, [(0, 1)]), (2, "b", 4.0, [(0, 2)])],
    ]


def test_labels_tell_not_relevant_from_not_judged():
    found, _ = listed((ranking([("1_1", "a", 3.0), ("1_1", "b", 2.0), ("1_1", "c", 1.0)]),), depth=3)
    assert [passage.label for passage in found["1_1"][0]] == [3, None, 0]


def test_a_passage_that_the_response_uses_is_shown_however_low_it_is():
    run = (ranking([("1_1", "a", 3.0), ("1_1", "b", 2.0), ("1_1", "c", 1.0)]), {"1_1": {"used": ["c"]}})
    found, _ = listed(run, depth=1)
    assert [(passage.docno, passage.rank, passage.used) for passage in found["1_1"][0]] == [("a", 1, False), ("c", 3, True)]


def test_a_passage_that_another_turn_uses_is_not_shown_for_that():
    frame = ranking([("1_1", "a", 2.0), ("1_1", "c", 1.0), ("1_2", "a", 2.0), ("1_2", "c", 1.0)])
    found, _ = listed((frame, {"1_2": {"used": ["c"]}}), depth=1)
    assert {qid: [passage.docno for passage in passages] for qid, (passages,) in found.items()} == {"1_1": ["a"], "1_2": ["a", "c"]}


def test_texts_are_cut_at_words_and_the_cut_is_told():
    words = [f"w{number}" for number in range(200)]
    texts = {"a": " ".join(words[:OPEN_WORDS]), "b": " ".join(words[: OPEN_WORDS + 2]), "c": " ".join(words)}
    run = ranking([("1_1", docno, 3.0 - rank) for rank, docno in enumerate(texts)])
    found, limit = listed((run.assign(text=run["docno"].map(texts)),), depth=3)
    assert limit == 120
    short, middle, long = found["1_1"][0]
    assert (short.beginning, short.rest) == (texts["a"], "")
    assert (middle.beginning, middle.rest) == (texts["a"], f"w{OPEN_WORDS} w{OPEN_WORDS + 1}")
    assert long.rest == " ".join(words[OPEN_WORDS:120]) + " …"


def test_many_long_passages_are_cut_shorter_but_stay_readable():
    assert word_limit(["word " * 100] * 10) == 120
    assert word_limit(["word " * 200] * 20_000) == 45  # 20,000 x 45 x 5 characters are 4.5 million, 60 words are 6
    assert word_limit(["word " * 150] * 80_000) == 30
    assert word_limit([]) == 120


def test_texts_come_from_the_loader_and_a_missing_one_is_an_error(sample):
    found, _ = listed((ranking([("1_1", "sample-walk-001:0", 1.0)]),), texts=sample.text_loader())
    assert found["1_1"][0][0].beginning.startswith("Newcomers to overnight trekking")
    with pytest.raises(DataError, match="lacks 1 of the passages to load .nowhere:0"):
        listed((ranking([("1_1", "nowhere:0", 1.0)]),), texts=sample.text_loader())


def test_without_texts_the_ids_remain():
    run = ranking([("1_1", "a", 1.0)])
    found, limit = listed((run.assign(text=[None]),))
    assert (found["1_1"][0][0].beginning, found["1_1"][0][0].rest, limit) == ("", "", 0)
