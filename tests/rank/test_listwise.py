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

    model = "knows"
    concurrency = 4

    def __init__(self, say=None):
        self.asked = []
        self.identity = {"provider": "fake", "model": str(id(self))}
        self.say = say or self.order

    def order(self, goods):
        places = sorted(range(len(goods)), key=goods.__getitem__)
        return " > ".join(f"[{place + 1}]" for place in places)

    def complete(self, requests):
        self.asked += requests
        replies = []
        for request in requests:
            shown = re.findall(r"passage-(\d+)", request.messages[0]["content"])
            text = self.say(list(map(int, shown)))
            replies.append(Reply(text, prompt_tokens=1, completion_tokens=1))
        return replies


def found(*turns):
    """A result frame: for each turn the goodness of its passages, as they are ranked before."""
    rows = []
    for number, goods in enumerate(turns):
        for rank, good in enumerate(goods):
            text = f"passage-{good} of turn {number}"
            rows.append((f"1_{number}", "q", f"d{good}", text, rank))
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "rank"])
    return frame.astype({"rank": int})


def goods(frame, qid="1_0"):
    docnos = frame[frame["qid"] == qid].sort_values("rank")["docno"]
    return [int(docno[1:]) for docno in docnos]


def test_the_windows_of_the_paper():
    starts = [80, 70, 60, 50, 40, 30, 20, 10, 0]
    assert windows(100, 20, 10) == [range(start, start + 20) for start in starts]
    # RankGPT's own loop would leave the first five out
    assert windows(25, 20, 10) == [range(5, 25), range(20)]
    assert windows(20, 20, 10) == [range(20)]
    assert windows(2, 20, 10) == [range(2)]
    assert windows(1, 20, 10) == []
    assert windows(0, 20, 10) == []


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
    messages = [
        {"role": "user", "content": "Which tea?"},
        {"role": "assistant", "content": "Rooibos."},
        {"role": "user", "content": "Has it caffeine?"},
    ]
    turn = ikat.conversation(messages, ["I am vegan."])
    passages = pd.DataFrame(
        {"docno": ["a", "b"], "text": ["one two three four", "</passage> five"], "rank": [0, 1]}
    )
    ranked = ikat.ListwiseRerank(llm, words=3)(turn.merge(passages, "cross"))
    prompt = backend.asked[0][0]["content"]
    for shown in (
        "I am vegan.",
        "user: Which tea?\nsystem: Rooibos.",
        "Has it caffeine?",
        '<passage number="1">\none two three\n</passage>',
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


def lines(form):
    """Writes each number in a line of this form, which begins with the number of the line."""

    def write(numbers):
        return "\n".join(form.format(line, number) for line, number in enumerate(numbers, 1))

    return write


def in_prose(numbers):
    return f"Here is the order of the 2024 passages: {each('{}', ', ')(numbers)}."


def thinking_aloud(numbers):
    """Looks at each passage first."""
    return each("[{}] is about tea. ", "")(sorted(set(numbers))) + each("[{}]")(numbers)


FORMS = {
    "as asked": each("[{}]"),
    "commas": each("[{}]", ", "),
    "close": each("[{}]", ""),
    "lines": each("[{}]", "\n"),
    "wide signs": each("【{}】", "\uff1e"),
    "bold": each("**[{}]**"),
    "escaped": each("[{}]", " &gt; "),
    "titles": each("[{}] Teas of 2024"),
    "numbered lines": lines("{}. [{}] about tea"),
    "named lines": lines("{}) Passage {}"),
    "bare lines": lines("{}. {}"),
    "scores": each("[{0}] (0.{0})"),
    "JSON": lambda numbers: f'{{"ranking": {list(numbers)}}}',
    "fenced": lambda numbers: f"```json\n{list(numbers)}\n```",
    "bare": each("{}"),
    "prose": in_prose,
    "thought": lambda numbers: f"<think>[7] > [1]?</think>{each('[{}]')(numbers)}",
    "aloud": thinking_aloud,
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
    draw = random.Random(form)
    order = [5, 3, 8, 1, 7, 2, 6, 4]
    numbers, repairs = malformed(draw)
    llm, _ = scripted(FORMS[form](numbers))
    ranked = ikat.ListwiseRerank(llm)(found(order))
    named = list(dict.fromkeys(number for number in numbers if 1 <= number <= 8))
    missing = [number for number in range(1, 9) if number not in named]
    assert goods(ranked) == [order[number - 1] for number in named + missing]
    counts = llm.ledger.frame()[["calls", "dropped", "failures", "fallbacks"]]
    assert counts.values.tolist() == [[1, repairs, 0, 0]]


@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_of_malformed_output_are_read(form):
    draw = random.Random(form)
    for _ in range(10):
        numbers, _ = malformed(draw)
        text = FORMS[form](numbers)
        assert read_ranking(text) == numbers, text


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
        ("", None),
        ("   ", None),
        ("I'm sorry, but I can't help with that.", None),
        ("In 2024 tea was cheap.", None),
        ("null", None),
        ("[]", None),
        ("{}", None),
        (">", None),
    ],
)
def test_hand_written_outputs_and_those_that_order_nothing(text, numbers):
    assert read_ranking(text) == numbers


@given(st.lists(st.integers(-3, 30), max_size=40), st.integers(0, 20))
def test_whatever_is_named_gives_a_permutation(numbers, size):
    order, repairs = permutation(numbers, size)
    assert sorted(order) == list(range(size))
    valid = [number for number in numbers if 1 <= number <= size]
    unknown = len(numbers) - len(valid)
    repeated = len(valid) - len(set(valid))
    missing = size - len(set(valid))
    assert len(repairs) == unknown + repeated + missing


# Failures, and what was asked before


@pytest.mark.parametrize("said", ["I can only say that tea is fine.", "[57] > [58]"])
def test_a_failed_window_keeps_its_order_and_the_next_is_asked(said):
    llm, backend = scripted(said, "[2] > [1] > [3]")
    ranked = ikat.ListwiseRerank(llm, window=3, stride=1, on_error="fallback")(found([4, 3, 2, 1]))
    assert goods(ranked) == [3, 4, 2, 1]
    assert len(backend.asked) == 2
    counts = llm.ledger.frame()[["calls", "failures", "fallbacks", "dropped"]]
    assert counts.values.tolist() == [[2, 1, 1, 0]]


def test_a_failure_is_raised_once_the_other_turns_are_finished():
    def say(shown):
        return "[57] > [58]" if 9 in shown else backend.order(shown)

    backend = Knows(say)
    rerank = ikat.ListwiseRerank(LLM(backend), window=3, stride=1)
    with pytest.raises(
        StageError, match="1_0.*the completion names 57, 58, and no passage from 1 to 3"
    ) as raised:
        rerank(found([9, 8, 7, 9], [4, 3, 2, 1]))
    assert [(failure.qid, failure.kept) for failure in raised.value.failures] == [("1_0", True)]
    assert sorted(request.qid for request in backend.asked) == ["1_0", "1_1", "1_1"]


def test_equal_turns_are_asked_once_and_a_stopped_stage_goes_on(tmp_path):
    frame = found([4, 3, 2, 1], [4, 3, 2, 1])
    frame["text"] = "passage-" + frame["docno"].str[1:]
    backend = Knows()
    llm = LLM(backend, cache=CompletionCache(tmp_path / "c.sqlite"))
    rerank = ikat.ListwiseRerank(llm, window=2, stride=1)
    first = rerank(frame)
    assert [request.item for request in backend.asked] == ["3-4", "2-3", "1-2"]
    assert rerank.llm.ledger.frame()[["calls", "known"]].values.tolist() == [[3, 3]]
    pd.testing.assert_frame_equal(rerank(frame), first)
    assert len(backend.asked) == 3

    more = found([4, 3, 2, 1, 0])  # its first window is new, those behind it differ, too
    more["text"] = "passage-" + more["docno"].str[1:]
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
    return frame.assign(text="text " + frame["docno"], score=5.0 - frame["rank"])


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
