"""Samples of one prompt: asked, counted, kept apart and replayed, and one query made of them."""

import json

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import Reply, scripted
from hypothesis import given
from hypothesis import strategies as st
from operators import a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.texts import parse_reasoned_rewrite, parse_rewrite_and_answer
from pyterrier_ikat.generate.sampled_queries import SamplesWarning, word_vectors


class Vectors(pt.Transformer):
    """An encoder: each text has the vector of a table."""

    def __init__(self, **vectors):
        super().__init__()
        self.vectors = vectors
        self.encoded = []

    def transform(self, inp):
        self.encoded += inp["query"].tolist()
        vectors = []
        for text in inp["query"]:
            name = text.replace(" ", "_")
            vectors.append(np.array(self.vectors[name], dtype=np.float32))
        return inp.assign(query_vec=vectors)

    def __hash__(self):
        return id(self)


def drawn(*samples, **columns):
    return pd.DataFrame(
        {"qid": ["1_2"], "query": ["it?"], "qsamples": [[list(sample) for sample in samples]]}
    ).assign(**columns)


def both(rewrite, answer):
    return f"Rewrite: {rewrite}\nResponse: {answer}"


# --- the completion of a rewrite and an answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rewrite: Is mint safe?\nResponse: Yes, it is.", ("Is mint safe?", "Yes, it is.")),
        (
            "Reason: a\nRewrite: Is mint safe?\n\nResponse: Yes.\n\nIt is: really.",
            ("Is mint safe?", "Yes. It is: really."),
        ),
        ("**Rewrite:** Is mint safe?\n**Response:** Yes.", ("Is mint safe?", "Yes.")),
        (
            "Rewritten query:\nIs mint safe?\nAnswer:\nYes.\nResponse: no label any more",
            ("Is mint safe?", "Yes. Response: no label any more"),
        ),
        (
            '{"reason": "a", "rewrite": "Is mint safe?", "response": "Yes."}',
            ("Is mint safe?", "Yes."),
        ),
        (
            "<think>Rewrite: no</think>Rewrite: Is mint safe?\nResponse: Yes.",
            ("Is mint safe?", "Yes."),
        ),
        ("Rewrite: Is mint safe?", None),
        ("Response: Yes.", None),
        ("Response: Yes.\nRewrite: Is mint safe?", None),
        ("Is mint safe? Yes.", None),
        ("Rewrite:\nResponse: Yes.", None),
        ("I'm sorry, but I can't help with that.", None),
        ("", None),
    ],
)
def test_a_rewrite_and_its_answer_are_read_after_their_labels(text, expected):
    assert parse_rewrite_and_answer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Reason: it is mint.\nRewrite: Is mint safe?", "Is mint safe?"),
        ("Is mint safe?", "Is mint safe?"),
        ("Rewrite: Is mint safe?\nResponse: Yes.", "Is mint safe?"),
        ("Reason: it is mint.", ""),
        ("Response: Yes.", ""),
    ],
)
def test_a_reason_is_no_rewrite(text, expected):
    assert parse_reasoned_rewrite(text) == expected


def test_an_unusable_completion_falls_back_to_the_question():
    llm, _ = scripted("Rewrite: half", both("Is rooibos good against a cold?", "It is."))
    out = ikat.RewriteAndAnswer(llm, on_error="fallback")(two_turns())
    assert out["qrewrite"].tolist() == ["And against a cold?", "Is rooibos good against a cold?"]
    assert out["query"].tolist() == [
        "And against a cold?",
        "Is rooibos good against a cold? It is.",
    ]
    assert out["qanswer"].tolist() == ["", "It is."]
    assert (ledger(llm, "failures"), ledger(llm, "fallbacks")) == (1, 1)


def test_the_prompt_asks_for_what_is_wanted():
    llm, backend = scripted(both("a", "b"), "Rewrite: a", "Rewrite: a")
    turn = a_turn()
    ikat.RewriteAndAnswer(llm)(turn)
    assert "qanswer" not in ikat.RewriteAndAnswer(llm, False)(turn)
    ikat.RewriteAndAnswer(llm, answer=False, think=False)(turn)
    assert [("Reason:" in text, "Response:" in text) for text in texts(backend)] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    for text in texts(backend):
        assert "I own a dog." in text
        assert "user: Which tea has no caffeine?" in text


# --- samples


def test_each_turn_is_asked_n_times_and_the_first_is_the_own_one():
    llm, backend = scripted("a 1", "b 1", "a 2", "b 2", "a 3", "b 3")
    turns = two_turns()
    out = ikat.Samples(ikat.Rewrite(llm), 3)(turns)
    assert len(backend.asked) == 6
    assert out["qsubqueries"].tolist() == [["a 1", "a 2", "a 3"], ["b 1", "b 2", "b 3"]]
    assert out["qsamples"].tolist() == [[["a 1"], ["a 2"], ["a 3"]], [["b 1"], ["b 2"], ["b 3"]]]
    assert out["qrewrite"].tolist() == out["query"].tolist() == ["a 1", "b 1"]
    assert out["query_0"].tolist() == turns["query"].tolist()
    assert "qsamples" not in turns.columns


def test_columns_of_a_sample_stay_apart_and_are_joined_to_search():
    llm, _ = scripted(both("r1", "a1"), both("r2", "a2"))
    out = ikat.Samples(ikat.RewriteAndAnswer(llm), 2, ("qrewrite", "qanswer"))(a_turn())
    assert out["qsamples"][0] == [["r1", "a1"], ["r2", "a2"]]
    assert out["qsubqueries"][0] == ["r1 a1", "r2 a2"]


def test_a_failed_sample_has_the_fallback_and_the_others_stay():
    llm, _ = scripted("a", "", "c")
    with pytest.raises(ikat.IkatError, match="stage rewrite"):
        ikat.Samples(ikat.Rewrite(llm), 3)(a_turn())
    llm, _ = scripted("a", "", "c")
    out = ikat.Samples(ikat.Rewrite(llm, on_error="fallback"), 3)(a_turn())
    assert out["qsubqueries"][0] == ["a", "And against a cold?", "c"]
    assert ledger(llm, "fallbacks") == 1


class Counted:
    """A model that numbers its answers, with an identity, so that they may be kept in a file."""

    identity = {"provider": "test", "model": "counted", "params": {"temperature": 0.7}}

    def __init__(self):
        self.asked = 0

    def generate(self, prompts):
        replies = []
        for _ in prompts:
            self.asked += 1
            replies.append(Reply(f"sample {self.asked}"))
        return replies


def test_samples_are_cached_apart_and_more_ask_only_for_new_ones(tmp_path):
    def again(n):
        model = Counted()
        out = ikat.Samples(ikat.Rewrite(ikat.llm(model, cache=str(tmp_path / "cache.sqlite"))), n)(
            a_turn()
        )
        return sorted(out["qsubqueries"][0]), model.asked

    first = again(3)
    assert first == (["sample 1", "sample 2", "sample 3"], 3)
    assert again(3) == (first[0], 0)
    assert again(5)[1] == 2


def test_the_plan_counts_each_sample_and_knows_the_cached_ones():
    llm, backend = scripted("a", "b", "c")
    turn = a_turn()
    system = ikat.Samples(ikat.Rewrite(llm), 3)
    before = ikat.plan({"x": system}, turn).total
    assert (before["calls"], before["new"], len(backend.asked)) == (3, 3, 0)
    system(turn)
    after = ikat.plan({"x": system}, turn).total
    assert (after["calls"], after["new"]) == (3, 0)


def test_recorded_samples_are_replayed_in_their_order(tmp_path):
    line = {"qid": "chat_2", "stage": "rewrite", "completion": ["a", "b"], "model": "recorded"}
    (tmp_path / "two.jsonl").write_text(json.dumps(line))
    llm = ikat.llm(f"recorded:{tmp_path / 'two.jsonl'}")
    assert ikat.Samples(ikat.Rewrite(llm), 2)(a_turn())["qsubqueries"][0] == ["a", "b"]
    with pytest.raises(ikat.DataError, match="rewrite sample 2: add lines .*list of texts"):
        ikat.Samples(ikat.Rewrite(llm), 3)(a_turn())


def test_a_model_that_does_not_draw_is_warned_of():
    class Cold(Counted):
        identity = {"provider": "test", "model": "cold", "params": {"temperature": 0}}

    with pytest.warns(
        SamplesWarning,
        match=r"the 2 samples of ikat.Rewrite\(.*may be the same: the model has temperature=0",
    ):
        ikat.Samples(ikat.Rewrite(ikat.llm(Cold())), 2)(a_turn())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda llm: ikat.Samples(ikat.RawUtterance()),
            "sample an operator that asks an LLM once per turn, such as ikat.Rewrite",
        ),
        (
            lambda llm: ikat.Samples(ikat.Respond(llm)),
            "sample an operator that asks an LLM once per turn",
        ),
        (lambda llm: ikat.Samples(ikat.Rewrite(llm), 0), "n=0: give 1 or more"),
        (lambda llm: ikat.Samples(ikat.Rewrite(llm), 2, ()), "columns=.*give a list of columns"),
        (
            lambda llm: ikat.Samples(ikat.Rewrite(llm), 1, ["qanswer"])(a_turn()),
            "writes no qanswer, but qid, query",
        ),
        (
            lambda llm: ikat.Samples(ikat.generate.PassageQueries(llm, ("short", "long")))(
                a_turn()
            ),
            "asks 2 times for 1 turn",
        ),
        (
            lambda llm: ikat.generate.Aggregate("max"),
            "how='max' is unknown: choose one of mean, first, consistent",
        ),
    ],
)
def test_what_cannot_be_sampled_or_chosen_is_named(make, said):
    with pytest.raises(ikat.UsageError, match=said):
        make(scripted("a")[0])


# --- one query of all


def test_the_texts_of_all_samples_or_of_one_are_joined():
    frame = drawn(("mint tea", "a1"), ("sage", "a2"), ("mint leaf tea", "a3"), qrewrite=["whole"])
    queries = {}
    for how in ("mean", "first", "consistent"):
        queries[how] = ikat.generate.Aggregate(how)(frame)["query"].item()
    # cosines, each with all three: mint tea 1 + 0 + 2/sqrt(6) = 1.816, sage 1, mint leaf tea 1.816
    # again: the first of the equal ones
    assert queries == {
        "mean": "mint tea a1 sage a2 mint leaf tea a3",
        "first": "mint tea a1",
        "consistent": "mint tea a1",
    }
    assert (
        ikat.generate.Aggregate("first", also="qrewrite")(frame)["query"].item()
        == "mint tea a1 whole"
    )
    assert ikat.generate.Aggregate()(frame)["query_0"].item() == "it?"


def test_the_mean_vector_counts_repeats_and_encodes_texts_once():
    encoder = Vectors(r=[1, 0], a1=[0, 1], a2=[0, 3])
    frame = drawn(("r", "a1"), ("r", "a2"))
    out = ikat.generate.Aggregate("mean", encoder)(frame)
    assert out["query_vec"].item().tolist() == [0.5, 1.0]  # (2 r + a1 + a2) / 4
    assert out["query"].item() == "r"
    assert sorted(encoder.encoded) == ["a1", "a2", "r"]


def test_the_mean_vector_has_the_text_of_one_more_column():
    encoder = Vectors(r=[1, 0], a1=[0, 1], more=[5, 2])
    frame = drawn(("r", "a1")).assign(qrewrite="more")
    out = ikat.generate.Aggregate("mean", encoder, "qrewrite")(frame)
    assert out["query_vec"].item().tolist() == [2.0, 1.0]
    assert out["query"].item() == "r"


def test_by_vectors_the_sample_of_largest_dot_sum_is_chosen():
    encoder = Vectors(r1=[1, 0], r2=[0.9, 0.9], r3=[0, 1], a1=[0, 0], a2=[2, 2], a3=[0, 0])
    frame = drawn(("r1", "a1"), ("r2", "a2"), ("r3", "a3"))  # sums: 1.9, 3.42, 1.9
    out = ikat.generate.Aggregate("consistent", encoder)(frame)
    np.testing.assert_allclose(out["query_vec"].item(), [1.45, 1.45], rtol=1e-6)
    assert out["query"].item() == "r2"


def test_a_query_vector_of_an_earlier_query_does_not_stay():
    frame = drawn(("mint",)).assign(query_vec=[np.zeros(2)])
    assert "query_vec" not in ikat.generate.Aggregate()(frame).columns


@pytest.mark.parametrize("samples", [[], [["", "a"]], [[]], [["a", None]]])
def test_a_turn_without_a_sample_and_a_non_encoder_are_named(samples):
    with pytest.raises(ikat.DataError, match=r"turn 1_2 has the qsamples \["):
        ikat.generate.Aggregate()(drawn(("a",)).assign(qsamples=[samples]))
    with pytest.raises(ikat.DataError, match="gave no query_vec for each query"):
        ikat.generate.Aggregate(encoder=ikat.RawUtterance())(drawn(("a",)))


WORDS = st.lists(st.sampled_from(["mint", "tea", "sage"]), min_size=1, max_size=5)


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_closeness_is_the_cosine_of_word_counts(lists):
    vectors = word_vectors([" ".join(words) for words in lists])
    rows = [[words.count("mint"), words.count("tea"), words.count("sage")] for words in lists]
    counts = np.array(rows, dtype=float)
    lengths = np.linalg.norm(counts, axis=1)
    cosines = counts @ counts.T / np.outer(lengths, lengths)
    np.testing.assert_allclose(vectors @ vectors.T, cosines, atol=1e-12)


def test_for_bm25_joined_texts_rank_as_by_their_mean_scores(tmp_path):
    passages = {
        "a": "mint tea is mint",
        "b": "sage tea cures",
        "c": "mint leaf",
        "d": "a tram runs",
        "e": "sage and mint and tea leaves",
    }
    index = ikat.PassageIndex(tmp_path / "i").index(
        [{"docno": docno, "text": text} for docno, text in passages.items()]
    )
    texts = ["mint tea", "sage tea", "mint tea", "leaves of sage"]
    together = (ikat.generate.Aggregate() >> index.bm25())(
        drawn(*([text] for text in texts))
    ).set_index("docno")["score"]
    alone = (
        index.bm25()(pd.DataFrame({"qid": list("0123"), "query": texts}))
        .groupby("docno")["score"]
        .sum()
    )
    np.testing.assert_allclose(together.sort_index(), alone.sort_index(), rtol=1e-5)
