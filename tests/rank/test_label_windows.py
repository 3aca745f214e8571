"""Re-rankers and lists of statements on small frames, with their whole results by hand."""

import math
import re

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.llms import LLMFailure
from pyterrier_ikat.rank import bi_encoders, cross_encoders, llm_rerankers, reranker
from pyterrier_ikat.rank.llm_rerankers import WindowedTurn, permutation, windows
from pyterrier_ikat.rank.reranker import Reranker, distinct, longest_first, ranked_by, scored_once
from pyterrier_ikat.store.cache import Cache


def results(*rows):
    """A result frame of (qid, docno, rank, text) rows; the query is that of the turn."""
    frame = pd.DataFrame(rows, columns=["qid", "docno", "rank", "text"])
    return frame.assign(query="about " + frame["qid"], score=0.0)


def orders(ranked):
    """Turn -> its docnos as one text, in the order of the rows."""
    docnos = {}
    for qid, rows in ranked.groupby("qid", sort=False):
        docnos[qid] = "".join(rows["docno"])
    return docnos


# Labels


class Labels:
    """Answers with the number in the passage of the prompt, and keeps the prompts."""

    def __init__(self):
        self.asked = []

    def generate(self, chats):
        answers = []
        for chat in chats:
            prompt = chat[-1]["content"]
            self.asked.append(prompt)
            answers.append(prompt.partition("worth-")[2][:1] or "nothing")
        return answers


FOUND = results(
    ("u", "a", 1, "a worth-2"),
    ("t", "b", 0, "b worth-0"),
    ("u", "c", 0, "c worth-2"),
    ("u", "d", 2, "d worth-4"),
    ("t", "e", 1, "e worth-3"),
    ("u", "f", 3, "f worth-4"),
)


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (10, [("u", "dfca"), ("t", "eb")]),
        (3, [("u", "dca"), ("t", "eb")]),
        (2, [("u", "ca"), ("t", "eb")]),
        (1, [("t", "b"), ("u", "c")]),
    ],
)
def test_the_best_passages_are_ordered_by_label_then_rank(depth, expected):
    model = Labels()
    ranked = ikat.LLMRerank(ikat.llm(model), depth)(FOUND)
    assert list(orders(ranked).items()) == expected
    for _, rows in ranked.groupby("qid"):
        assert rows["rank"].tolist() == list(range(len(rows)))
    labels = ranked["text"].str[-1].astype(float)
    fractions = ranked["score"] - labels
    assert fractions.tolist() == pytest.approx([1 / (rank + 2) for rank in ranked["rank"]])
    assert len(model.asked) == len(ranked)
    for prompt in model.asked:
        assert ("about u" in prompt) != ("about t" in prompt)


def test_a_request_shows_a_passage_and_is_known_by_it():
    rerank = ikat.LLMRerank(ikat.llm(Labels()))
    first, second = rerank.requests(FOUND[:2])
    assert (first.qid, first.stage, first.prompt, first.item) == ("u", "rerank", "rerank", "a")
    assert (second.qid, second.stage, second.prompt, second.item) == ("t", "rerank", "rerank", "b")
    for request, query, text in (
        (first, "about u", "a worth-2"),
        (second, "about t", "b worth-0"),
    ):
        prompt = request.messages[-1]["content"]
        assert query in prompt
        assert text in prompt


def test_the_depth_counts_passages_wherever_their_ranks_begin():
    ranked = ikat.LLMRerank(ikat.llm(Labels()), 2)(FOUND.assign(rank=FOUND["rank"] + 5))
    assert list(orders(ranked).values()) == ["ca", "eb"]
    assert ranked.index.tolist() == [0, 1, 2, 3]


def test_a_passage_without_label_is_below_every_label():
    found = results(("t", "a", 0, "?"), ("t", "b", 1, "worth-0"), ("t", "c", 2, "x"))
    rerank = ikat.LLMRerank(ikat.llm(Labels()), on_error="fallback")
    ranked = rerank(found)
    assert ranked["docno"].tolist() == ["b", "a", "c"]
    assert ranked["score"].tolist() == pytest.approx([0.5, -1 + 1 / 3, -1 + 1 / 4])
    assert rerank.fallback(found) == [-1, -1, -1]
    assert rerank.typical(found) == [2, 2, 2]


@pytest.mark.parametrize("lacking", ["query", "rank", "text", "docno"])
def test_columns_that_a_label_needs_are_named(lacking):
    with pytest.raises((IkatError, ValueError), match=lacking):
        ikat.LLMRerank(ikat.llm(Labels()))(FOUND.drop(columns=lacking))


# Windows


@pytest.mark.parametrize(
    ("count", "window", "stride", "expected"),
    [
        (0, 4, 2, []),
        (1, 4, 2, []),
        (2, 4, 2, ["0-2"]),
        (4, 4, 2, ["0-4"]),
        (5, 4, 2, ["1-5", "0-4"]),
        (6, 4, 2, ["2-6", "0-4"]),
        (7, 4, 2, ["3-7", "1-5", "0-4"]),
        (7, 4, 4, ["3-7", "0-4"]),
        (8, 4, 4, ["4-8", "0-4"]),
        (3, 2, 1, ["1-3", "0-2"]),
    ],
)
def test_windows_go_from_the_last_passage_to_the_first(count, window, stride, expected):
    found = [f"{part.start}-{part.stop}" for part in windows(count, window, stride)]
    assert found == expected


@pytest.mark.parametrize(
    ("numbers", "size", "order", "repairs"),
    [
        ([2, 1], 2, [1, 0], []),
        ([3], 3, [2, 0, 1], ["1 missing", "2 missing"]),
        ([2, 2, 2, 1], 2, [1, 0], ["2 again", "2 again"]),
        ([0, 1, 3, -1], 2, [0, 1], ["no passage 0", "no passage 3", "no passage -1", "2 missing"]),
        ([9, 9], 1, [0], ["no passage 9", "no passage 9", "1 missing"]),
        ([], 2, [0, 1], ["1 missing", "2 missing"]),
        ([], 0, [], []),
    ],
)
def test_numbers_are_completed_and_each_repair_is_named(numbers, size, order, repairs):
    assert permutation(numbers, size) == (order, repairs)


class Orders:
    """Answers with the next of its completions, and keeps the passages of each prompt."""

    def __init__(self, *completions):
        self.completions = list(completions)
        self.shown = []

    def generate(self, chats):
        answers = []
        for chat in chats:
            words = chat[-1]["content"].split()
            self.shown.append("".join(word[-1] for word in words if word.startswith("passage-")))
            answers.append(self.completions.pop(0))
        return answers


def listwise(model, **options):
    options = {"k": 5, "window": 3, "stride": 2} | options
    return ikat.ListwiseRerank(ikat.llm(model), **options)


def five(qid="t"):
    """Five passages a to e of a turn, and f behind them, in another order of rows."""
    rows = []
    for rank, docno in enumerate("abcdef"):
        rows.append((qid, docno, rank, f"passage-{docno} of many"))
    return results(*rows).iloc[[3, 0, 5, 2, 1, 4]].reset_index(drop=True)


def test_a_good_passage_rises_from_window_to_window():
    model = Orders("[3] > [1] > [2]", "[3] > [2] > [1]")
    ranked = listwise(model)(five())
    assert model.shown == ["cde", "abe"]
    assert ranked["docno"].tolist() == ["e", "b", "a", "c", "d", "f"]
    assert ranked["rank"].tolist() == [0, 1, 2, 3, 4, 5]
    assert ranked["score"].tolist() == [6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(("words", "shown"), [(1, "passage-a"), (2, "passage-a of"), (300, None)])
def test_a_prompt_shows_the_first_words_of_each_passage(words, shown):
    rerank = listwise(Orders(), words=words)
    frame = results(("t", "a", 0, "passage-a\n of  many"))
    assert rerank._texts(frame) == [shown or "passage-a of many"]


def test_each_turn_has_its_own_windows_and_few_passages_none():
    frame = pd.concat([five("u"), results(("t", "x", 0, "alone")), five("v")[:2]])
    rerank = listwise(Orders(), k=4)
    turns = rerank._turns(frame.reset_index(drop=True))
    assert [turn.qid for turn in turns] == ["u", "t", "v"]
    assert [turn.rows for turn in turns] == [[1, 4, 3, 0, 5, 2], [6], [8, 7]]
    assert [turn.windows for turn in turns] == [[range(1, 4), range(3)], [], [range(2)]]
    requests = rerank.requests(frame.reset_index(drop=True))
    assert [(request.qid, request.item) for request in requests] == [
        ("u", "2-4"),
        ("u", "1-3"),
        ("v", "1-2"),
    ]
    assert rerank.typical(frame) == [[1, 2, 3], [1, 2, 3], [1, 2]]
    assert rerank.fallback(frame) == [[], [], []]
    assert listwise(Orders())(five()[:0]).columns.tolist() == five().columns.tolist()


def test_repairs_are_listed_by_turn_and_passages():
    outcomes = [[3, 1, 3, 7], [1, 2, 3], []]
    frame = pd.concat([five("u")[:5], five("v")[:2]]).reset_index(drop=True)
    rerank = listwise(Orders(), k=4)
    assert rerank.list_dropped(frame, outcomes) == [
        "turn u, passages 2-4: no passage 7",
        "turn u, passages 2-4: 3 again",
        "turn u, passages 2-4: 2 missing",
    ]


def test_the_outcomes_of_each_turn_go_to_its_own_windows():
    """Windows of passages 2 to 4, then 1 to 3. Of v: a, then d b c; then a b d of a d b."""
    frame = pd.concat([five("u"), results(("t", "x", 0, "alone")), five("v")])
    frame = frame.query("docno not in ['e', 'f']").reset_index(drop=True)
    rerank = listwise(Orders(), stride=1)
    sizes = [list(map(len, turn.windows)) for turn in rerank._turns(frame)]
    assert sizes == [[3, 3], [], [3, 3]]
    ranked = rerank.write(frame, [[1, 2, 3], [2, 1, 3], [3, 1, 2], [1, 3, 2]])
    assert orders(ranked) == {"u": "bacd", "t": "x", "v": "abdc"}
    assert ranked["rank"].tolist() == [0, 1, 2, 3, 0, 0, 1, 2, 3]
    assert ranked.index.tolist() == list(range(9))


@pytest.mark.parametrize(("numbers", "fails"), [([0], True), ([4, 9], True), ([9, 3, 0], False)])
def test_a_window_fails_if_no_number_is_of_a_passage(numbers, fails):
    turn = WindowedTurn("t", [0, 1, 2], {}, [range(3)])
    rerank = listwise(Orders())
    outcome = rerank._checked(turn, range(3), numbers)
    if not fails:
        assert outcome == numbers
        return
    assert (outcome.qid, outcome.kept) == ("t", True)
    assert "and no passage from 1 to 3" in str(outcome)


@pytest.mark.parametrize("completion", ["[9] > [8]", "nothing to order"])
def test_a_window_without_a_number_fails_or_keeps_its_order(completion):
    found = five().query("docno in ['a', 'b', 'c', 'd', 'e']")
    rerank = listwise(Orders(completion, "[3] > [1] > [2]"), on_error="fallback")
    ranked = rerank(found)
    assert ranked["docno"].tolist() == ["c", "a", "b", "d", "e"]
    model = Orders(completion, "[3] > [1] > [2]")
    with pytest.raises(IkatError):
        listwise(model)(found)
    assert model.shown == ["cde"]  # the next window isn't asked


def test_rows_are_moved_within_their_windows():
    turn = WindowedTurn("t", [7, 3, 9, 1], {}, [range(1, 4), range(2)])
    failed = LLMFailure("listwise", "t", "reason")
    assert llm_rerankers._reordered(turn, []) == [7, 3, 9, 1]
    assert llm_rerankers._reordered(turn, [[3, 1, 2]]) == [7, 1, 3, 9]
    assert llm_rerankers._reordered(turn, [[3, 1, 2], [2, 1]]) == [1, 7, 3, 9]
    assert llm_rerankers._reordered(turn, [failed, [2]]) == [3, 7, 9, 1]
    assert turn.rows == [7, 3, 9, 1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"stride": 4}, "stride=4 is larger than window=3"),
        ({"k": 0}, "k=0"),
        ({"stride": 0}, "stride=0"),
        ({"words": 0}, "words=0"),
        ({"window": 1, "stride": 1}, "window=1"),
    ],
)
def test_windows_that_cannot_slide_are_refused(options, told):
    with pytest.raises(ikat.UsageError, match=told):
        listwise(Orders(), **options)
    assert listwise(Orders(), stride=3).stride == 3


# Scores


class ByText(Reranker):
    """Scores each row by the number in its text."""

    schematic = {"label": "By text"}

    def __init__(self):
        super().__init__()
        self.frames = []

    def score(self, frame):
        self.frames.append(len(frame))
        return frame["text"].astype(float).to_numpy()


def test_rows_are_ordered_by_score_and_ties_by_docno():
    found = results(("u", "a", 0, "1"), ("t", "b", 0, "5"), ("u", "c", 1, "1"), ("u", "b", 2, "2"))
    ranked = ByText()(found.assign(more=[1, 2, 3, 4]))
    assert ranked[["qid", "docno", "score", "rank", "more"]].values.tolist() == [
        ["u", "b", 2.0, 0, 4],
        ["u", "c", 1.0, 1, 3],
        ["u", "a", 1.0, 2, 1],
        ["t", "b", 5.0, 0, 2],
    ]
    assert ranked.index.tolist() == [0, 1, 2, 3]
    scorer = ByText()
    empty = scorer(found[:0])
    assert (len(empty), scorer.frames) == (0, [])
    assert empty[["score", "rank"]].dtypes.tolist() == [np.float64, np.int64]
    for lacking in ("query", "text"):
        with pytest.raises((IkatError, ValueError), match=lacking):
            scorer(found.drop(columns=lacking))
    with pytest.raises(ikat.DataError, match="score nan"):
        ranked_by(found, np.array([1, 2, float("nan"), 3]), "model")


def test_texts_are_numbered_by_first_occurrence_longest_first():
    numbers, texts = distinct(["b", "a", "b", "c"])
    assert (numbers.tolist(), texts) == ([0, 1, 0, 2], ["b", "a", "c"])
    assert longest_first([1, 3, 2, 3]).tolist() == [1, 3, 2, 0]
    assert longest_first([]).tolist() == []
    frame = pd.DataFrame({"qid": ["t"], "text": column(["a\ud800"])})
    assert reranker.as_texts(frame, "text") == ["a\ufffd"]


def test_a_pair_is_scored_once_for_a_model_and_kept_if_finite():
    cache = Cache()
    asked = []
    scores_of = {"aa": 2, "bad": math.inf}

    def score(pairs):
        asked.extend(pairs)
        return np.array([scores_of[text] for _, text in pairs])

    queries = ["q", "q", "r", "q"]
    texts = ["aa", "bad", "aa", "aa"]
    for model, expected in ((b"1", 3), (b"1", 4), (b"2", 7)):
        scores = scored_once(queries, texts, model, cache, score)
        assert scores.tolist() == [2, math.inf, 2, 2]
        assert len(asked) == expected
    assert asked[:4] == [("q", "aa"), ("q", "bad"), ("r", "aa"), ("q", "bad")]


def test_cosines_are_those_of_each_pair(monkeypatch):
    monkeypatch.setattr(bi_encoders, "PAIRS_AT_ONCE", 2)
    vectors = {"x": [1, 0], "y": [0, 1], "z": [0.6, 0.8]}
    calls = []

    def embed(texts, kind):
        calls.append((list(texts), kind))
        return np.array([vectors[text] for text in texts], dtype=np.float32)

    scores = bi_encoders.cosines(["x", "y", "x", "z", "y"], ["z", "z", "y", "x", "y"], embed)
    assert scores.tolist() == pytest.approx([0.6, 0.8, 0.0, 0.6, 1.0])
    assert calls == [(["x", "y", "z"], "query"), (["z", "y", "x"], "document")]


def test_embeddings_are_kept_if_finite_and_encoded_longest_first():
    cache = Cache()
    asked = []
    vectors = {"a": [1, 1.0], "odd": [3, math.nan], "long": [4, 1.0]}

    def encode(texts):
        asked.append(list(texts))
        return np.array([vectors[text] for text in texts])

    for _ in range(2):
        found = bi_encoders.embedded_once(["a", "odd", "long"], b"m", cache, encode)
        assert found.dtype == np.float32
        assert found[:, 0].tolist() == [1, 3, 4]
    assert asked == [["long", "odd", "a"], ["odd"]]
    bi_encoders.embedded_once(["a"], b"n", cache, encode)
    assert asked[2:] == [["a"]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ensemble", ikat.Ensemble()),
        ("bi:m", ikat.BiEncoder("m")),
        ("colbert:a/b:c", ikat.ColBERT("a/b:c")),
        ("monot5:m", ikat.MonoT5("m")),
        ("org/name", ikat.CrossEncoder("org/name")),
        ("other:m", ikat.CrossEncoder("other:m")),
    ],
)
def test_a_name_says_the_kind_of_a_re_ranker(name, expected):
    assert ikat.load_reranker(name) == expected


class Model:
    """What a loaded cross-encoder is asked."""

    def __init__(self, device):
        self.device = type("Device", (), {"type": device})
        self.asked = []

    def predict(self, pairs, **options):
        self.asked.append((pairs, options))
        return [len(text) for _, text in pairs]


@pytest.mark.parametrize(
    ("device", "backend", "batch_size", "expected"),
    [
        ("cpu", "torch", None, 2),
        ("cpu", "openvino", None, 1),
        ("cpu", "onnx", None, 2),
        ("cuda", "torch", None, 128),
        ("cuda", "torch", 7, 7),
        ("cpu", "torch", 7, 7),
    ],
)
def test_a_batch_of_pairs_fits_the_device(monkeypatch, device, backend, batch_size, expected):
    model = Model(device)
    loaded = []

    def load(*arguments):
        loaded.append(arguments)
        return model

    monkeypatch.setattr(cross_encoders, "load_cross_encoder", load)
    encoder = ikat.CrossEncoder("m", 77, batch_size, backend=backend)
    assert encoder._score([("q", "text")]).tolist() == [4.0]
    assert loaded == [("m", 77, "float32", backend)]
    [(pairs, options)] = model.asked
    assert pairs == [("q", "text")]
    assert options == {"batch_size": expected, "show_progress_bar": False}


def test_onnx_computes_in_float32():
    with pytest.raises(
        ikat.UsageError, match="dtype='bfloat16': backend='onnx' computes in float32"
    ):
        ikat.CrossEncoder("m", dtype="bfloat16", backend="onnx")
    assert ikat.CrossEncoder("m", backend="onnx").dtype == "float32"
    assert ikat.CrossEncoder("m", dtype="bfloat16", backend="openvino").dtype == "bfloat16"


def test_a_bi_encoder_is_asked_for_vectors_of_its_kind(monkeypatch):
    calls = []

    class Encoder:
        def encode_query(self, texts, **options):
            calls.append(("query", texts, options))

        def encode_document(self, texts, **options):
            calls.append(("document", texts, options))

    monkeypatch.setattr(bi_encoders, "load_bi_encoder", lambda name: Encoder())
    for kind in ("query", "document"):
        ikat.BiEncoder("m", 7)._encode(["a"], kind)
    options = {"batch_size": 7, "show_progress_bar": False, "normalize_embeddings": True}
    assert calls == [("query", ["a"], options), ("document", ["a"], options)]


# Statements


PTKB = {"1": "tea", "2": "tram", "3": "bus", "4": "cat"}


def turns(**columns):
    return pd.DataFrame({"qid": ["t", "u"], "query": ["a", "b"], **columns}, dtype=object)


def by_id(scores):
    def score(rows):
        return rows.assign(score=rows["docno"].map(scores).astype(float), rank=0)

    return pt.apply.generic(score)


def test_statements_are_rows_with_the_columns_of_their_turn():
    frame = turns(qptkb=[["tea", "tram"], {}], qturn=[1, 2], other=[0, 0])
    listed = ikat.ListStatements()(frame)
    assert listed.to_dict("list") == {
        "qid": ["t", "t"],
        "query": ["a", "a"],
        "qptkb": [["tea", "tram"]] * 2,
        "qturn": [1, 1],
        "docno": ["1", "2"],
        "text": ["tea", "tram"],
        "score": [2.0, 1.0],
        "rank": [0, 1],
    }
    numbered = frame.rename(columns={"other": 5})
    assert ikat.ListStatements()(numbered).equals(listed)
    assert len(ikat.ListStatements()(turns())) == 0  # nobody's statements are known


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1, [("2", 5.0)]),
        (3, [("2", 5.0), ("1", 1.0), ("3", 1.0)]),
        (9, [("2", 5.0), ("1", 1.0), ("3", 1.0), ("4", -2.0)]),
    ],
)
def test_the_best_statements_are_chosen_ties_in_their_order(n, expected):
    scorer = by_id({"1": 1, "2": 5, "3": 1, "4": -2})
    chosen = ikat.RankStatements(scorer, n)(turns(qptkb=[PTKB, None]))
    assert chosen["qstatements"].tolist() == [expected, []]
    assert chosen["qid"].tolist() == ["t", "u"]
    nobody = ikat.RankStatements(by_id({}))(turns(qptkb=[{}, None]))
    assert nobody["qstatements"].tolist() == [[], []]
    assert ikat.RankStatements(scorer).n == 3


@pytest.mark.parametrize(
    "scores", [{"1": 1, "2": 2, "3": 3}, {"1": 1, "2": 2, "3": 3, "4": math.inf}]
)
def test_a_statement_without_a_finite_score_is_named(scores):
    with pytest.raises(ikat.DataError, match="no finite score to statement 4 of turn t: use"):
        ikat.RankStatements(by_id(scores))(turns(qptkb=[PTKB, None]))


def test_turns_to_choose_statements_for_are_checked():
    ranker = ikat.RankStatements(by_id({}))
    with pytest.raises(ikat.DataError, match="t"):
        ranker(turns().assign(qid="t"))
    with pytest.raises(ikat.DataError, match="query"):
        ranker(turns().assign(query=["a", None]))
    with pytest.raises((IkatError, ValueError), match="query"):
        ranker(turns().drop(columns="query"))


def test_source_turns_have_the_best_statements_score_and_columns():
    rows = [
        ("t", "D1%p1", 3),
        ("u", "D2%p0", 0),
        ("t", "D1%p0", 0),
        ("t", "D3", 1),
        ("t", "D2%p7", 2),
    ]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "rank"])
    frame = frame.assign(query="q", score=9.0 - frame["rank"], text="of " + frame["docno"])
    found = ikat.SourceTurns()(frame)
    assert found[["qid", "docno", "score", "rank", "text"]].values.tolist() == [
        ["t", "D1", 9.0, 0, "of D1%p0"],
        ["t", "D3", 8.0, 1, "of D3"],
        ["t", "D2", 7.0, 2, "of D2%p7"],
        ["u", "D2", 9.0, 0, "of D2%p0"],
    ]
    tied = ikat.SourceTurns()(frame.assign(score=1.0))
    assert tied["docno"].tolist() == ["D1", "D3", "D2", "D2"]  # in their order, so not equal
    assert tied["score"].iloc[0] > tied["score"].iloc[1] > tied["score"].iloc[2]


def test_columns_that_statements_and_windows_need_are_named():
    for lacking in ("query", "rank", "text"):
        with pytest.raises((IkatError, ValueError), match=lacking):
            listwise(Orders())(five().drop(columns=lacking))
    for lacking in ("query", "score", "rank"):
        with pytest.raises((IkatError, ValueError), match=lacking):
            ikat.SourceTurns()(FOUND.drop(columns=lacking))
    for lacking in ("qid", "query"):
        with pytest.raises((IkatError, ValueError), match=lacking):
            ikat.ListStatements()(turns().drop(columns=lacking))


def test_a_scorer_gets_statements_without_a_ranking():
    seen = []

    def score(rows):
        seen.append(rows.columns.tolist())
        return rows.assign(score=1.0, rank=0)

    ikat.RankStatements(pt.apply.generic(score))(turns(qptkb=[PTKB, None]))
    assert seen == [["qid", "query", "qptkb", "docno", "text"]]


def test_a_plan_counts_what_a_scorer_of_statements_asks():
    ranker = ikat.RankStatements(ikat.LLMRerank(ikat.llm(Labels())))
    topics = pt.get_dataset("ikat:sample").get_topics().head(1)
    assert ikat.plan({"x": ranker}, topics)["calls"].sum() > 0


def test_a_window_of_few_passages_has_their_numbers_alone():
    turn = WindowedTurn("t", [0, 1], {}, [range(2)])
    rerank = listwise(Orders())
    assert isinstance(rerank._checked(turn, range(2), [3]), LLMFailure)
    assert rerank._checked(turn, range(2), [3, 2]) == [3, 2]


def test_one_thread_at_a_time_scores_and_encodes():
    seen = []

    def score(pairs):
        seen.append(reranker.scoring.locked())
        return np.zeros(len(pairs))

    def encode(texts):
        seen.append(reranker.scoring.locked())
        return np.zeros((len(texts), 2))

    scored_once(["q"], ["text"], b"m", Cache(), score)
    bi_encoders.embedded_once(["text"], b"m", Cache(), encode)
    assert seen == [True, True]
    assert not reranker.scoring.locked()


def test_many_equal_lengths_keep_their_order():
    lengths = [number % 3 for number in range(300)]
    expected = sorted(range(300), key=lambda number: -lengths[number])
    assert longest_first(lengths).tolist() == expected


def test_each_turn_is_asked_with_its_own_windows():
    prompts = []

    class Model:
        def generate(self, chats):
            prompts.extend(chat[-1]["content"] for chat in chats)
            return ["[2] > [1]"] * len(chats)

    frame = pd.concat([results(("s", "x", 0, "alone")), five("u"), five("v")[:2]])
    frame = frame.iloc[[0, 7, 8, 1, 2, 3, 4, 5, 6]].reset_index(drop=True)
    frame["qutterance"] = "said by " + frame["qid"]
    frame["qhistory"] = [[] for _ in range(len(frame))]
    ranked = listwise(Model())(frame)
    shown = []
    for prompt in prompts:
        docnos = sorted(re.findall("passage-([a-f])", prompt))
        shown.append((prompt.partition("said by ")[2][0], "".join(docnos)))
    assert sorted(shown) == [("u", "abd"), ("u", "cde"), ("v", "ad")]
    assert orders(ranked) == {"s": "x", "v": "da", "u": "badcef"}


def test_re_rankers_have_their_documented_defaults():
    listed = ikat.ListwiseRerank("recorded:sample")
    assert (listed.k, listed.window, listed.stride, listed.words) == (100, 20, 10, 300)
    judged = ikat.LLMRerank("recorded:sample")
    assert (judged.depth, judged.question) == (10, "query")
    pairs = ikat.CrossEncoder("m")
    assert (pairs.max_length, pairs.batch_size, pairs.dtype) == (512, None, "float32")
    assert (pairs.backend, pairs.cache) == ("torch", None)
    for scorer in (ikat.BiEncoder("m"), ikat.ColBERT("m"), ikat.MonoT5()):
        assert (scorer.batch_size, scorer.cache) == (32, None)
    assert (ikat.MonoT5().model, ikat.MonoT5().tokenizer) == (
        "castorini/monot5-base-msmarco",
        "t5-base",
    )
