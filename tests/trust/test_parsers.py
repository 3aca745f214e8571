"""What models send, read by every parser.

At least 150 outputs each with the outcome decided by hand, and anything else without a crash.
"""

import json
import re
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.citations import (
    read_citations,
    while_written,
    with_marks,
    without_marks,
)
from pyterrier_ikat.completions.json_answers import json_values
from pyterrier_ikat.completions.learned import merge, read_learned
from pyterrier_ikat.completions.reasoning import opening_mark, split_reasoning, without_reasoning
from pyterrier_ikat.completions.statements import (
    choose,
    match_label,
    read_copies,
    read_ids,
    read_scores,
)
from pyterrier_ikat.completions.texts import (
    parse_passage,
    parse_queries,
    parse_reasoned_rewrite,
    parse_rewrite,
    parse_rewrite_and_answer,
)
from pyterrier_ikat.completions.usable import is_refusal, readable, usable_text
from pyterrier_ikat.completions.verdicts import (
    parse_label,
    read_action,
    read_choice,
    read_numbers,
    read_ranking,
    read_score,
    read_yes_no,
)
from pyterrier_ikat.evaluation.judgements import parse_judgement
from pyterrier_ikat.rank.llm_rerankers import permutation

CORPUS = Path(__file__).with_name("corpus")
"""One file per parser.

A line has an output of a model, its outcome as somebody decided it, and the family of such outputs.
"""
PERSONA = {
    "1": "I am vegan.",
    "2": "I own a dog called Bo.",
    "3": "I live in Oslo.",
    "4": "Ich wohne in der Nähe von Köln.",
    "5": "Je n'aime pas le café.",
    "6": "我喜欢喝茶。",
    "7": "أعيش في القاهرة.",
    "10": "I run 10 km every Sunday.",
    "11": "I am allergic to nuts & seeds.",
    "12": "My budget is 200 euros.",
}
VERDICTS = {
    "score": lambda text: read_score(text, -1, 3),
    "yes_no": read_yes_no,
    "choice": read_choice,
    "numbers": read_numbers,
}


@cache
def corpus(name):
    """The corpus of this name: dicts of family, text, outcome."""
    lines = (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def chosen(form, read):
    """What a statements parser and the persona make of a text.

    Ids, for scores pairs; None where nothing was read.
    """

    def decide(text):
        found = read(text)
        if found is None:
            return None
        picked = choose(form, found, PERSONA).statements
        if form == "scores":
            return [list(pair) for pair in picked]
        return [number for number, _ in picked]

    return decide


def field(read, name):
    """What a parser makes of a text: one field of what it gives; None where it reads nothing."""
    return lambda text: getattr(read(text), name, None)


READERS = {
    "queries": parse_queries,
    "ids": chosen("ids", read_ids),
    "copies": chosen("copies", read_copies),
    "scores": chosen("scores", read_scores),
    "labels": parse_label,
    "judgements": field(parse_judgement, "label"),
    "score_verdicts": field(VERDICTS["score"], "value"),
    "yes_no_verdicts": field(read_yes_no, "value"),
    "choice_verdicts": field(read_choice, "value"),
    "number_verdicts": field(read_numbers, "value"),
    "passages": parse_passage,
    "rewrites": parse_rewrite,
    "answers": usable_text,
    "refusals": is_refusal,
    "thinking": without_reasoning,
    "values": lambda text: json.loads(json.dumps(json_values(text))),  # JSON's keys are texts
}
"""One parser for each corpus, by the corpus's name."""


@pytest.mark.parametrize("name", READERS)
def test_every_output_of_the_corpus_is_read_as_decided(name):
    cases = corpus(name)
    assert len({case["text"] for case in cases}) >= 150
    misread = []
    for case in cases:
        outcome = READERS[name](case["text"])
        if outcome != case["outcome"]:
            misread.append((case, outcome))
    assert misread == []


def every_text():
    """The texts of all corpora, each once."""
    texts = set()
    for name in READERS:
        texts.update(case["text"] for case in corpus(name))
    return sorted(texts)


EVERYTHING = every_text()
MARKS = [*"[]{}\"'`:,\n\\\0、3", "```", "1.", "- ", "<think>", "</think>", "**", "\ud800"]


def damaged(text, rng):
    """The text with a few places cut out, doubled or replaced by marks that parsers look for."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.randint(0, 12))
        text = text[:start] + rng.choice(["", text[start:end] * 2, *MARKS]) + text[end:]
    return text


anything = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.lists(st.sampled_from(MARKS)).map("".join),
    st.builds(damaged, st.sampled_from(EVERYTHING), st.randoms(use_true_random=False)),
    st.builds(lambda text, end: text[:end], st.sampled_from(EVERYTHING), st.integers(1, 60)),
)
"""Any text, any heap of marks, corpus outputs damaged or cut off."""


def check_all(text):
    """Every parser gives a value of its promised type."""
    queries = parse_queries(text)
    assert len(queries) <= 5
    for query in queries:
        assert query == " ".join(query.split())
        assert any(map(str.isalnum, query))
    assert len({query.casefold() for query in queries}) == len(queries)
    for read in (parse_rewrite, parse_passage):
        assert read(text) == "" or any(map(str.isalnum, read(text)))
    left = without_reasoning(text)
    assert left == left.strip()
    # a mark in quotation marks is only mentioned
    unquoted = re.sub(r"""["'`]</?think>([\s.…]{0,9}</?think>)?["'`]""", "", left.lower())
    assert "</think>" not in unquoted
    assert "<think>" not in unquoted
    assert usable_text(text) == ("" if is_refusal(left) else left)
    assert isinstance(is_refusal(text), bool)
    assert all(isinstance(value, list | dict) for value in json_values(text))
    for form, read in (("ids", read_ids), ("copies", read_copies), ("scores", read_scores)):
        found = read(text)
        pairs = [] if found is None else choose(form, found, PERSONA).statements
        numbers = [number for number, _ in pairs]
        scores = [score for _, score in pairs]
        assert set(numbers) <= set(PERSONA)
        assert len(set(numbers)) == len(numbers)
        assert all(0 < score <= 1 for score in scores)
        assert scores == sorted(scores, reverse=True)
    ranking = read_ranking(text)
    assert ranking is None or sorted(permutation(ranking, 9).order) == list(range(9))
    assert parse_label(text) in (None, 0, 1, 2, 3, 4)
    judgement = parse_judgement(text)
    assert judgement is None or judgement.label in range(5)
    values = {}
    for kind, read in VERDICTS.items():
        verdict = read(text)
        if verdict is not None:
            values[kind] = verdict.value
    assert values.get("score", 0) in range(-1, 4)
    assert values.get("yes_no", True) in (True, False)
    assert values.get("choice", "A") in ("A", "B", "tie")
    assert all(isinstance(number, int) for number in values.get("numbers", []))
    check_citations(text)


def check_citations(text):
    """What marks name is known or not, and each sentence that cites is in the text."""
    cited = read_citations(text, 3)
    for sentence in cited.sentences:
        assert set(sentence.numbers) <= {1, 2, 3}
        assert not set(sentence.unknown) & {1, 2, 3}
        assert sentence.text in cited.text
    assert isinstance(without_marks(with_marks(cited.text, cited.sentences)), str)
    assert isinstance(while_written(text, 3), str)


@given(anything)
def test_no_text_breaks_a_parser(text):
    check_all(text)


LOOPS = json.loads((CORPUS / "loops.json").read_text(encoding="utf-8"))
LOOP = 4_000
FRONTS = ["", "[1]\n[", "Answer: ", "<think>", "1. ", "I'm sorry, ", '{"score": "', "<"]


KEPT = {
    "answers",
    "thinking",
    "reason",
    "mark",
    "passages",
    "rewrites",
    "rewrite_and_answer",
    "reasoned_rewrite",
    "refusals",
    "prompts",
}
KEPT |= {"values", "label", "merge", "citations", "streamed"}
"""The parsers that see a text with all its repetitions.

Because it is kept or a person wrote it; others see it with these cut.
"""


EVERY = READERS | {
    "learned": read_learned,
    "rewrite_and_answer": parse_rewrite_and_answer,
    "reasoned_rewrite": parse_reasoned_rewrite,
    "citations": lambda text: read_citations(text, 5),
    "streamed": lambda text: while_written(text, 5),
    "action": read_action,
    "ranking": read_ranking,
    "reason": split_reasoning,
    "prompts": readable,
    "mark": opening_mark,
    "label": lambda text: match_label(text, PERSONA),
    "merge": lambda text: merge([{"statement": text, "words": text}], {}, {1: text}),
}
"""Every parser, also those that no corpus has."""


@pytest.mark.parametrize("piece", LOOPS, ids=ascii)
def test_model_that_repeats_itself_endlessly_breaks_no_parser(piece):
    loop = (piece * LOOP)[:LOOP]
    check_all(readable(loop)[0])
    by_turns = FRONTS[LOOPS.index(piece) % 4 :: 4]
    texts = [(readable(front + loop)[0], EVERY) for front in by_turns]
    texts.append((readable(loop, whole=True)[0], KEPT))
    for text, names in texts:
        for name in names:
            started = time.process_time()
            EVERY[name](text)
            assert time.process_time() - started < 0.25, (name, text[:20])


@pytest.mark.parametrize(
    ("opening", "closing", "levels"), [("[", "]", 600), ("{", "}", 1_020), ('{"a":[', "]}", 510)]
)
def test_brackets_within_brackets_break_no_parser(opening, closing, levels):
    """Some that only Python's own parser of JSON reads, and more than its calls within calls."""
    check_all(opening * levels + closing * levels)
