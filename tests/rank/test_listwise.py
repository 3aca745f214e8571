"""Listwise re-ranking.

Windows, a model that knows the true order, what is repaired, failures, the plan and resumption.
"""

import math
import random
import re

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByQuestion, scripted
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.verdicts import read_ranking
from pyterrier_ikat.llms import LLM, Backend, Reply, StageError
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.rank.llm_rerankers import permutation, windows

_llm = ikat.llm("recorded:sample")
TestListwise = pt.testing.transformer_test_class(lambda: ikat.ListwiseRerank(_llm))


class Knows(Backend):
    """A model that knows the true order.

    The number in a passage's text says how good it is, the lowest first.
    """

    model, concurrency = "knows", 4

    def __init__(self, say=None):
        self.asked, self.identity, self.say = (
            [],
            {"provider": "fake", "model": str(id(self))},
            say or self.order,
        )

    def order(self, goods):
        return " > ".join(
            f"[{place + 1}]" for place in sorted(range(len(goods)), key=goods.__getitem__)
        )

    def complete(self, requests):
        self.asked += requests
        shown = [
            re.findall(r"passage-(\d+)", request.messages[0]["content"]) for request in requests
        ]
        return [
            Reply(self.say([int(good) for good in goods]), prompt_tokens=1, completion_tokens=1)
            for goods in shown
        ]


def found(*turns):
    """A result frame: for each turn the goodness of its passages, as they are ranked before."""
    rows = [
        {
            "qid": f"1_{number}",
            "query": "q",
            "docno": f"d{good}",
            "text": f"passage-{good} of turn {number}",
            "rank": rank,
        }
        for number, goods in enumerate(turns)
        for rank, good in enumerate(goods)
    ]
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "rank"]).astype(
        {"rank": int}
    )


def goods(frame, qid="1_0"):
    return [int(docno[1:]) for docno in frame[frame["qid"] == qid].sort_values("rank")["docno"]]


def test_the_windows_of_the_paper():
    assert windows(100, 20, 10) == [
        range(start, start + 20) for start in (80, 70, 60, 50, 40, 30, 20, 10, 0)
    ]
    assert windows(25, 20, 10) == [
        range(5, 25),
        range(20),
    ]  # RankGPT's own loop would leave the first five out
    assert (windows(20, 20, 10), windows(2, 20, 10), windows(1, 20, 10), windows(0, 20, 10)) == (
        [range(20)],
        [range(2)],
        [],
        [],
    )


sizes = st.integers(2, 9).flatmap(lambda window: st.tuples(st.just(window), st.integers(1, window)))


@given(st.permutations(range(24)), st.integers(1, 30), sizes)
def test_one_pass_brings_the_best_on_top_at_the_formulas_cost(order, k, size):
    window, stride = size
    backend = Knows()
    ranked = ikat.ListwiseRerank(LLM(backend), k, window, stride)(found(order))
    among = order[:k]
    best = len(among) if len(among) <= window else window - stride
    assert goods(ranked)[:best] == sorted(among)[:best]
    assert sorted(goods(ranked)[: len(among)]) == sorted(among)
    assert goods(ranked)[len(among) :] == order[k:]
    calls = 0 if len(among) < 2 else 1 + max(0, math.ceil((len(among) - window) / stride))
    assert len(backend.asked) == calls
    assert ranked["score"].tolist() == list(range(24, 0, -1))
    assert ranked["rank"].tolist() == list(range(24))


def test_the_prompt_shows_the_conversation_and_the_stated_words():
    llm, backend = scripted("[2] > [1]")
    said = zip(
        ("user", "assistant", "user"), ("Which tea?", "Rooibos.", "Has it caffeine?"), strict=True
    )
    turn = ikat.conversation(
        [{"role": role, "content": content} for role, content in said], ["I am vegan."]
    )
    passages = pd.DataFrame(
        {"docno": ["a", "b"], "text": ["one two three four", "</passage> five"], "rank": [0, 1]}
    )
    ranked = ikat.ListwiseRerank(llm, words=3)(turn.merge(passages, "cross"))
    prompt, first = (
        backend.asked[0][0]["content"],
        '<passage number="1">\none two three\n</passage>',
    )
    for shown in (
        "I am vegan.",
        "user: Which tea?\nsystem: Rooibos.",
        "Has it caffeine?",
        first,
        "&lt;/passage> five",
    ):
        assert shown in prompt
    assert "four" not in prompt
    assert ranked["docno"].tolist() == ["b", "a"]
    assert ranked["text"].tolist()[1] == "one two three four"


# What models say


def each(form, between=" > "):
    """Writes each number in this form."""
    return lambda numbers: between.join(form.format(number) for number in numbers)


FORMS = {
    "as asked": each("[{}]"),
    "commas": each("[{}]", ", "),
    "close": each("[{}]", ""),
    "lines": each("[{}]", "\n"),
    "wide signs": each("【{}】", "\uff1e"),
    "bold": each("**[{}]**"),
    "escaped": each("[{}]", " &gt; "),
    "titles": each("[{}] Teas of 2024"),
    "numbered lines": lambda numbers: "\n".join(
        f"{line}. [{number}] about tea" for line, number in enumerate(numbers, 1)
    ),
    "named lines": lambda numbers: "\n".join(
        f"{line}) Passage {number}" for line, number in enumerate(numbers, 1)
    ),
    "bare lines": lambda numbers: "\n".join(
        f"{line}. {number}" for line, number in enumerate(numbers, 1)
    ),
    "scores": each("[{0}] (0.{0})"),
    "JSON": lambda numbers: f'{{"ranking": {list(numbers)}}}',
    "fenced": lambda numbers: f"```json\n{list(numbers)}\n```",
    "bare": each("{}"),
    "prose": lambda numbers: (
        f"Here is the order of the 2024 passages: {each('{}', ', ')(numbers)}."
    ),
    "thought": lambda numbers: f"<think>[7] > [1]?</think>{each('[{}]')(numbers)}",
    "aloud": lambda numbers: (
        each("[{}] is about tea. ", "")(sorted(set(numbers))) + each("[{}]")(numbers)
    ),
    "example": lambda numbers: f"In the form [2] > [1]:\n\n{each('[{}]')(numbers)}\n\nThat is all.",
}


def malformed(draw):
    """Numbers that a model may name for 8 passages.

    How many repairs they need, counted as they are made.
    """
    numbers = draw.sample(range(1, 9), draw.randint(4, 8))
    repairs = 8 - len(numbers)
    for number in draw.choices(numbers, k=draw.randint(0, 2)):
        numbers.append(number)
        repairs += 1
    for _ in range(draw.randint(0, 2)):
        numbers.insert(draw.randint(0, len(numbers)), draw.choice((0, 9, 57, 2024)))
        repairs += 1
    return numbers, repairs


@pytest.mark.parametrize("form", FORMS)
def test_malformed_output_is_a_permutation_with_counted_repairs(form):
    draw, order = random.Random(form), [5, 3, 8, 1, 7, 2, 6, 4]
    for again in range(10):
        numbers, repairs = malformed(draw)
        text = FORMS[form](numbers)
        assert read_ranking(text) == numbers, text
        if again:
            continue
        llm, _ = scripted(text)
        ranked = ikat.ListwiseRerank(llm)(found(order))
        named = list(dict.fromkeys(number for number in numbers if 1 <= number <= 8))
        assert goods(ranked) == [order[number - 1] for number in named] + [
            order[place] for place in range(8) if place + 1 not in named
        ]
        assert llm.ledger.frame()[
            ["calls", "dropped", "failures", "fallbacks"]
        ].values.tolist() == [[1, repairs, 0, 0]]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[2] > [1] > [3", [2, 1]),
        ("[02] > [01]", [2, 1]),
        ("[Passage 2] > [Passage 1]", [2, 1]),
        ("[2] = [1] > [3]-[5]", [2, 1, 3, 5]),
        ("2", [2]),
        ("[2]", [2]),
        ("Passage 2 is the best one, then passage 1.", [2, 1]),
        ("1 > 2 > 3 (of 3, 0.5 s)", [1, 2, 3]),
        ("[" + "9" * 5000 + "] > [1]", [999_999_999, 1]),
        ("[٢] > [١]", [2, 1]),
        ("(2) > (1) > (3)", [2, 1, 3]),
        ("<2> > <1>", [2, 1]),
        ("Ranking: 2,1,3", [2, 1, 3]),
        ("[[2], [1], [3]]", [2, 1, 3]),
        ('["2", "1", "3"]', [2, 1, 3]),
        ("[2] > [1]\n\nQuestion: And milk?\n[5] > [4] > [3]", [2, 1]),
        *(
            (text, None)
            for text in (
                "",
                "   ",
                "I'm sorry, but I can't help with that.",
                "In 2024 tea was cheap.",
                "null",
                "[]",
                "{}",
                ">",
            )
        ),
    ],
)
def test_hand_written_outputs_and_those_that_order_nothing(text, numbers):
    assert read_ranking(text) == numbers


@given(st.lists(st.integers(-3, 30), max_size=40), st.integers(0, 20))
def test_whatever_is_named_gives_a_permutation(numbers, size):
    order, repairs = permutation(numbers, size)
    assert sorted(order) == list(range(size))
    valid = [number for number in numbers if 1 <= number <= size]
    assert len(repairs) == len(numbers) - len(valid) + len(valid) - len(set(valid)) + size - len(
        set(valid)
    )


# Failures, and what was asked before


@pytest.mark.parametrize("said", ["I can only say that tea is fine.", "[57] > [58]"])
def test_a_failed_window_keeps_its_order_and_the_next_is_asked(said):
    llm, backend = scripted(said, "[2] > [1] > [3]")
    ranked = ikat.ListwiseRerank(llm, window=3, stride=1, on_error="fallback")(found([4, 3, 2, 1]))
    assert goods(ranked) == [3, 4, 2, 1]
    assert len(backend.asked) == 2
    assert llm.ledger.frame()[["calls", "failures", "fallbacks", "dropped"]].values.tolist() == [
        [2, 1, 1, 0]
    ]


def test_a_failure_is_raised_once_the_other_turns_are_finished():
    def say(shown):
        return "[57] > [58]" if 9 in shown else backend.order(shown)

    backend = Knows(say)
    with pytest.raises(
        StageError, match="1_0.*the completion names 57, 58, and no passage from 1 to 3"
    ) as raised:
        ikat.ListwiseRerank(LLM(backend), window=3, stride=1)(found([9, 8, 7, 9], [4, 3, 2, 1]))
    assert [(failure.qid, failure.kept) for failure in raised.value.failures] == [("1_0", True)]
    assert sorted(request.qid for request in backend.asked) == ["1_0", "1_1", "1_1"]


def test_equal_turns_are_asked_once_and_a_stopped_stage_goes_on(tmp_path):
    frame = found([4, 3, 2, 1], [4, 3, 2, 1])
    frame["text"] = [f"passage-{docno[1:]}" for docno in frame["docno"]]
    backend = Knows()
    rerank = ikat.ListwiseRerank(
        LLM(backend, cache=CompletionCache(tmp_path / "c.sqlite")), window=2, stride=1
    )
    first = rerank(frame)
    assert [request.item for request in backend.asked] == ["3-4", "2-3", "1-2"]
    assert rerank.llm.ledger.frame()[["calls", "known"]].values.tolist() == [[3, 3]]
    pd.testing.assert_frame_equal(rerank(frame), first)
    assert len(backend.asked) == 3

    more = found([4, 3, 2, 1, 0])  # its first window is new, those behind it differ, too
    more["text"] = [f"passage-{docno[1:]}" for docno in more["docno"]]
    assert goods(rerank(more))[0] == 0
    assert len(backend.asked) == 7


def test_the_plan_knows_the_calls():
    class Finds(pt.Transformer):
        def transform(self, inp):
            return inp.assign(docno="a", score=1.0, rank=0, text="t")

    topics = pt.get_dataset("ikat:sample").get_topics().head(2)
    for k, cut, calls in ((100, 40, 3), (30, 1000, 2), (100, 1, 0)):
        rows = ikat.plan({"x": Finds() % cut >> ikat.ListwiseRerank(LLM(Knows()), k)}, topics)
        assert rows["calls"].sum() == 2 * calls, (k, cut)


def test_of_two_whole_rankings_the_last_counts():
    assert read_ranking("[1] > [2] > [3]\n\nBetter: [3] > [1] > [2]") == [3, 1, 2]


def test_passages_of_equal_labels_keep_their_order_by_rank():
    frame = pd.DataFrame(
        {"qid": ["1_1"] * 3, "query": ["tea"] * 3, "docno": list("abc"), "rank": [2, 0, 1]}
    ).assign(text=["mint", "sage", "thyme"], score=[1.0, 3.0, 2.0])
    llm, _ = scripted("2", "2", "3")
    ranked = ikat.LLMRerank(llm)(frame)
    assert ranked["docno"].tolist() == ["c", "b", "a"]
    assert ranked["score"].tolist() == pytest.approx([3 + 1 / 2, 2 + 1 / 3, 2 + 1 / 4])


def five(order=(3, 1, 0, 4, 2)):
    """Five passages of a turn, in an order of rows that is not that of their ranks."""
    frame = pd.DataFrame({"qid": "1_1", "query": "tea", "docno": list("dbaec"), "rank": order})
    return frame.assign(text=[f"text {docno}" for docno in "dbaec"], score=5.0 - frame["rank"])


def labelling(**labels):
    """A model that gives these passages these labels."""
    backend = ByQuestion(**{f"text {docno}": label for docno, label in labels.items()})
    return ikat.llm(backend), backend


def test_only_the_best_passages_are_judged_and_kept():
    llm, backend = labelling(a="1", b="3", c="1")
    ranked = ikat.LLMRerank(llm, depth=3)(five())
    assert ranked["docno"].tolist() == ["b", "a", "c"]
    assert ranked["rank"].tolist() == [0, 1, 2]
    assert len(backend.asked) == 3


def test_a_passage_without_label_comes_last_or_is_an_error():
    labels = {"a": "no idea", "b": "0", "c": "2"}
    ranked = ikat.LLMRerank(labelling(**labels)[0], depth=3, on_error="fallback")(five())
    assert ranked["docno"].tolist() == ["c", "b", "a"]
    assert ranked["score"].is_monotonic_decreasing
    with pytest.raises(StageError):
        ikat.LLMRerank(labelling(**labels)[0], depth=3)(five())


@pytest.mark.parametrize(("depth", "cut", "calls"), [(10, 40, 10), (10, 4, 4), (3, 40, 3)])
def test_a_plan_has_a_call_for_each_judged_passage(depth, cut, calls):
    finds = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0, text="t"))
    topics = pt.get_dataset("ikat:sample").get_topics().head(2)
    rows = ikat.plan({"x": finds % cut >> ikat.LLMRerank(LLM(Knows()), depth)}, topics)
    assert rows["calls"].sum() == 2 * calls
