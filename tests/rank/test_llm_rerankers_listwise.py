"""ListwiseRerank: windows, a model that knows the true order, repairs, failures and the plan."""

import math
import random
import re

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from hypothesis import given
from hypothesis import strategies as st
from rank.to_rank import Knows, orders, ranked_passages

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.verdicts import read_ranking
from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.llms import LLM, LLMFailure, StageError
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.rank import llm_rerankers
from pyterrier_ikat.rank.llm_rerankers import WindowedTurn, permutation, windows

_llm = ikat.llm("recorded:sample")
TestListwise = pt.testing.transformer_test_class(lambda: ikat.ListwiseRerank(_llm))


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


# Windows


def test_the_windows_of_the_paper():
    starts = [80, 70, 60, 50, 40, 30, 20, 10, 0]
    assert windows(100, 20, 10) == [range(start, start + 20) for start in starts]
    # RankGPT's own loop would leave the first five out
    assert windows(25, 20, 10) == [range(5, 25), range(20)]
    assert windows(20, 20, 10) == [range(20)]
    assert windows(2, 20, 10) == [range(2)]
    assert windows(1, 20, 10) == []
    assert windows(0, 20, 10) == []


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
    return ranked_passages(*rows).iloc[[3, 0, 5, 2, 1, 4]].reset_index(drop=True)


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
    frame = ranked_passages(("t", "a", 0, "passage-a\n of  many"))
    assert rerank._texts(frame) == [shown or "passage-a of many"]


def test_each_turn_has_its_own_windows_and_few_passages_none():
    frame = pd.concat([five("u"), ranked_passages(("t", "x", 0, "alone")), five("v")[:2]])
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


def test_each_turn_is_asked_with_its_own_windows():
    prompts = []

    class Model:
        def generate(self, chats):
            prompts.extend(chat[-1]["content"] for chat in chats)
            return ["[2] > [1]"] * len(chats)

    frame = pd.concat([ranked_passages(("s", "x", 0, "alone")), five("u"), five("v")[:2]])
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


def test_the_outcomes_of_each_turn_go_to_its_own_windows():
    """Windows of passages 2 to 4, then 1 to 3. Of v: a, then d b c; then a b d of a d b."""
    frame = pd.concat([five("u"), ranked_passages(("t", "x", 0, "alone")), five("v")])
    frame = frame.query("docno not in ['e', 'f']").reset_index(drop=True)
    rerank = listwise(Orders(), stride=1)
    sizes = [list(map(len, turn.windows)) for turn in rerank._turns(frame)]
    assert sizes == [[3, 3], [], [3, 3]]
    ranked = rerank.write(frame, [[1, 2, 3], [2, 1, 3], [3, 1, 2], [1, 3, 2]])
    assert orders(ranked) == {"u": "bacd", "t": "x", "v": "abdc"}
    assert ranked["rank"].tolist() == [0, 1, 2, 3, 0, 0, 1, 2, 3]
    assert ranked.index.tolist() == list(range(9))


def test_a_window_of_few_passages_has_their_numbers_alone():
    turn = WindowedTurn("t", [0, 1], {}, [range(2)])
    rerank = listwise(Orders())
    assert isinstance(rerank._checked(turn, range(2), [3]), LLMFailure)
    assert rerank._checked(turn, range(2), [3, 2]) == [3, 2]


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


def test_columns_that_windows_need_are_named():
    for lacking in ("query", "rank", "text"):
        with pytest.raises((IkatError, ValueError), match=lacking):
            listwise(Orders())(five().drop(columns=lacking))


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


def test_repairs_are_listed_by_turn_and_passages():
    outcomes = [[3, 1, 3, 7], [1, 2, 3], []]
    frame = pd.concat([five("u")[:5], five("v")[:2]]).reset_index(drop=True)
    rerank = listwise(Orders(), k=4)
    assert rerank.list_dropped(frame, outcomes) == [
        "turn u, passages 2-4: no passage 7",
        "turn u, passages 2-4: 3 again",
        "turn u, passages 2-4: 2 missing",
    ]


@given(st.lists(st.integers(-3, 30), max_size=40), st.integers(0, 20))
def test_whatever_is_named_gives_a_permutation(numbers, size):
    order, repairs = permutation(numbers, size)
    assert sorted(order) == list(range(size))
    valid = [number for number in numbers if 1 <= number <= size]
    unknown = len(numbers) - len(valid)
    repeated = len(valid) - len(set(valid))
    missing = size - len(set(valid))
    assert len(repairs) == unknown + repeated + missing


def test_of_two_whole_rankings_the_last_counts():
    assert read_ranking("[1] > [2] > [3]\n\nBetter: [3] > [1] > [2]") == [3, 1, 2]


# Failures, and what was asked before


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
