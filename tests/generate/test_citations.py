"""Citations: marks are read, checked and taken out of the text, and what is no mark stays."""

import json

import pytest
from fakes import scripted
from generate.test_citation_marks import shown_whole
from operators import a_turn, found, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import (
    read_citations,
    sentences_in,
    while_written,
    with_marks,
    without_marks,
)
from pyterrier_ikat.operator import citing
from pyterrier_ikat.runs import Turn

SAID = "Rooibos has no caffeine [2]. Mate has some.[1, 7] It is old."


def numbers(text, passages=5):
    """Of each sentence the numbers, known and unknown."""
    of_sentences = []
    for sentence in read_citations(text, passages).sentences:
        unknown = [-number for number in sentence.unknown]
        of_sentences.append((*sentence.numbers, *unknown))
    return of_sentences


@pytest.mark.parametrize(
    ("said", "plain", "cited"),
    [
        (SAID, "Rooibos has no caffeine. Mate has some. It is old.", [(2,), (1, -7), ()]),
        ("Oats keep. [1][2] Rye, too [3], [4].", "Oats keep. Rye, too.", [(1, 2), (3, 4)]),
        ("Oats keep [1-3]. Rye (Doc1, Doc2).", "Oats keep. Rye.", [(1, 2, 3), (1, 2)]),
        # wordings that public runs of iKAT 2024 have
        (
            "It is dry. (Docs 2, 4)\n\nIt pays ([Doc1](#doc1)).",
            "It is dry.\n\nIt pays.",
            [(2, 4), (1,)],
        ),
        (
            "It lasts ([Doc1], [Doc4]). Not here (Document 0).",
            "It lasts. Not here.",
            [(1, 4), (0,)],
        ),
        ("It stays (Reference Passage 3). So (Docs 3 and 4).", "It stays. So.", [(3,), (3, 4)]),
        ("Oats【1†source】 keep. **[2]** Rye too [^3].", "Oats keep. Rye too.", [(1, 2), (3,)]),
        (
            "燕麦便宜[1]。它们耐放。[2]黑麦也是。",
            "燕麦便宜。它们耐放。黑麦也是。",
            [(1,), (2,), ()],
        ),
        (
            "Avena [1]; centeno [2]. ¿Y la cebada? [3]",
            "Avena; centeno. ¿Y la cebada?",
            [(1, 2), (3,)],
        ),
        ("Oats.\n[1]\nRye.", "Oats.\nRye.", [(1,), ()]),
        ("Oats keep. [1].", "Oats keep.", [(1,)]),
        ("Oats keep.\n\nSources:\n[1] The oat\n- [2] The rye", "Oats keep.", [(), (1, 2)]),
        (
            "According to [1], oats keep, as told in [2] and [3].",
            "According to passage 1, oats keep, as told in passages 2 and 3.",
            [(1, 2, 3)],
        ),
        (
            "[1] says so. Passage [2] denies it.",
            "Passage 1 says so. Passage 2 denies it.",
            [(1,), (2,)],
        ),
        ("Oats keep [9].", "Oats keep.", [(-9,)]),
        # words that are also those of code and of intervals
        ("The glycemic index [2] of oats.", "The glycemic index of oats.", [(2,)]),
        (
            "A wide range [1] and a list [1, 2] of teas.",
            "A wide range and a list of teas.",
            [(1, 2)],
        ),
        (
            "A set [3], on a large scale [2][9], in one vector [1].",
            "A set, on a large scale, in one vector.",
            [(3, 2, 1, -9)],
        ),
        (
            "The array [1] after an interval [2] of a day.",
            "The array after an interval of a day.",
            [(1, 2)],
        ),
        ("A range [1, 2, 3] of teas.", "A range of teas.", [(1, 2, 3)]),
        # ranges over brackets
        ("Oats keep [1]–[3]. Rye [1]-[2].", "Oats keep. Rye.", [(1, 2, 3), (1, 2)]),
        ("Oats keep [1] – [3]. Rye [Doc 1] to [Doc 3].", "Oats keep. Rye.", [(1, 2, 3), (1, 2, 3)]),
        (
            "Oats keep (Doc 2)—(Doc 4). Rye [1−3], [4]‑[5].",
            "Oats keep. Rye.",
            [(2, 3, 4), (1, 2, 3, 4, 5)],
        ),
        ("Oats keep [4] & [2]/[1].", "Oats keep.", [(4, 2, 1)]),
        ("A range [1]–[3] of teas.", "A range of teas.", [(1, 2, 3)]),
        # words before a name
        (
            "Oats keep (see Doc 2). Rye (Source: Passage 1, Passage 3).",
            "Oats keep. Rye.",
            [(2,), (1, 3)],
        ),
        ("Oats keep [see Document 2], and rye (cf. Doc 9).", "Oats keep, and rye.", [(2, -9)]),
        # tags around marks
        (
            "Oats keep <b>[1]</b>. Rye <em>[2]</em>, wheat <font size='1'>[3]</font>.",
            "Oats keep. Rye, wheat.",
            [(1,), (2, 3)],
        ),
        ("Oats keep.<sup>[1]</sup> Rye <sup>[2][3]</sup>.", "Oats keep. Rye.", [(1,), (2, 3)]),
        ("Oats <sup>[1]</sup><sup>[2]</sup> keep <cite>[3]</cite>.", "Oats keep.", [(1, 2, 3)]),
        ('Oats keep<sup><a href="#7">[1]</a></sup>. Rye^[2]^.', "Oats keep. Rye.", [(1,), (2,)]),
        # places in passages
        ("Oats keep [Doc 1, p. 3]. Rye (Doc 2, pp. 4-5).", "Oats keep. Rye.", [(1,), (2,)]),
        (
            "Oats keep [1, p. 3; 2, page 4]. Rye [Passage 3, section 2, paragraph 4].",
            "Oats keep. Rye.",
            [(1, 2), (3,)],
        ),
        ("Oats keep [Doc 1 (p. 3)]. Rye [Doc 2: § 4.1].", "Oats keep. Rye.", [(1,), (2,)]),
    ],
)
def test_marks_are_read_and_taken_out(said, plain, cited):
    assert read_citations(said, 5).text == plain
    assert numbers(said) == cited


@pytest.mark.parametrize(
    "said",
    [
        "It was born in [2023], after [1999].",
        "See [oats](https://oats.org), [1](https://oats.org/1) and [rye][1].",
        "Take `a[1]`, x[2] or values = [1, 2].\n```\nb[1]\n```",
        "In the interval [1, 5], on a scale of [1-5], or in [0, 1].",
        "Values in the range of [1, 4], ranges from [1] to [5], intervals [2–3].",
        "Odds fell (95% CI [2, 4]; IQR: [1-3]), between [1, 5] and ranging from [2, 3].",
        "Take list[1], index[2], my_values[3] and set[1, 2].",
        "10<sup>3</sup> m<sup>2</sup>, p. 3.",
        "[1] Oats\n[2] Rye",
        "The second one (2) and three (3 kg), step (1).",
        "Call 1-800-273-TALK (8255), or \\[1\\].",
        "1. Oats.\n2. Rye.",
    ],
)
def test_what_belongs_to_the_text_is_no_citation(said):
    assert read_citations(said, 5).text == said
    assert not any(numbers(said))


def test_the_list_that_is_shown_is_taken_out_again():
    cited = read_citations("Oats keep [2]. Rye [1][3]!\n\nSources: [1], [4]", 5)
    shown = with_marks(cited.text, cited.sentences)
    assert shown == "Oats keep. [2] Rye! [1][3]\n\nSources: [4]"
    assert without_marks(shown) == cited.text == "Oats keep. Rye!"


def test_a_cut_keeps_whole_sentences_with_their_citations():
    cited = read_citations(SAID, 5)
    assert [one[1:] for one in cited.cut(7).sentences] == [((2,), ()), ((1,), (7,))]
    assert cited.cut(7).text == "Rooibos has no caffeine. Mate has some."
    assert cited.cut(2) == (
        "Rooibos has",
        (("Rooibos has", (2,), ()),),
    )  # a first sentence that is too long keeps its citation


def test_a_cut_drops_citations_of_a_sentence_repeated_behind_it():
    cited = read_citations("It is red [1]. It is mild. It is red [2]. It has no caffeine.", 3)
    assert [sentence[:2] for sentence in cited.cut(6).sentences if sentence.text] == [
        ("It is red.", (1,)),
        ("It is mild.", ()),
    ]


def test_a_cut_first_sentence_keeps_its_citation():
    cited = read_citations("Rooibos has no caffeine [2].\n\nSources: [1]", 3).cut(2)
    assert [sentence[:2] for sentence in cited.sentences] == [("Rooibos has", (2,)), ("", (1,))]


def test_sentences_are_counted_without_what_says_nothing():
    assert sentences_in("Two teas:\n- Mint. It cools.\n- Sage\n\n...") == [
        "Two teas:",
        "- Mint.",
        "It cools.",
        "- Sage",
    ]


@pytest.mark.parametrize(
    "said",
    [
        SAID,
        "A (Doc1, Doc2), *so* ([Doc 1](#d)) [oats](http://x) [2023].",
        "燕麦[1]。[2]黑麦",
        "x [1",
        "[",
        "a  \n\n[1][2]",
    ]
    + [
        "Oats [1]–[3]. Rye [1] to [2] is [3] there.",
        "Oats.<sup>[2]</sup> Rye <sup><a href='#'>[1]</a></sup>!",
        "A [Doc 1, p. 3]. B^[2]^ <b>.",
        "A (see Doc 1, Doc 2). B <em>[2]</em>.",
        "Two teas:\n\n- Mint [1].\n- Sage [2]\n  - wild [1][2]\n  - red\n\n"
        "1. Boil it.\n2. Add mint [2].\n\nDone.",
        "### Teas\n\n1. **Rooibos** [1]: red\n   - no caffeine [2]\n2. **Mint**\n\n"
        "> Quoted [1].\n\n---\nEnd.",
        "Teas [2]\n\n| tea | caffeine |\n|---|---|\n| rooibos [1] | none |\n| mate | some [2] |\n\n"
        "End [1].",
        "Run [1]:\n```python\nx = list[1]\n```\nThen `a[1]` [2]. OK",
        "Teas [1].\r\n\r\n* Mint [2]\r\n* Sage",
        "• Mint [1]\n• Sage [2]\n– Rye\n+ Oats [1]\n(a) Tea [2]\n10) Hay",
        "Oats [1].\n\nSources:\n[1] Farming\n[2] Teas",
        "Oats [1].\n\n**References**\n- [1]\n- [2]",
        "Sources of caffeine are:\n- tea [1]\n- mate [2]",
    ],
)
def test_a_response_shown_while_written_begins_the_whole(said):
    whole = shown_whole(read_citations(said, 9))
    for end in range(len(said) + 1):
        assert whole.startswith(while_written(said[:end], 9).rstrip())


def test_respond_asks_for_citations_and_marks_what_is_cited():
    llm, backend = scripted("Ginger [2]. Mint [2][7]!", "Rooibos.", "Tea.", "Tea.")
    results = found(two_turns(), 4)
    out = ikat.Respond(llm, passages=3, cite=True)(results)
    first = out[out["qid"] == "chat_2"]
    second = out[out["qid"] == "other_1"]
    assert out["qanswer"].unique().tolist() == ["Ginger. Mint!", "Rooibos."]
    docno = first.sort_values("rank")["docno"].iloc[1]
    assert first["qcitations"].iloc[0] == [
        {"sentence": "Ginger.", "docnos": [docno], "unknown": []},
        {"sentence": "Mint!", "docnos": [docno], "unknown": [7]},
    ]
    assert first.loc[first["used"], "docno"].tolist() == [docno]
    assert second["qcitations"].iloc[0] == [{"sentence": "Rooibos.", "docnos": [], "unknown": []}]
    assert sorted(second.loc[second["used"], "rank"]) == [0, 1, 2]  # it cites none: what was shown
    assert ledger(llm, "dropped") == 1
    asked = texts(backend)[0]
    ikat.Respond(llm, passages=3)(results)
    plain = texts(backend)[2]
    assert asked.startswith(plain)
    assert "square brackets" in asked[len(plain) :]


def test_a_number_beyond_the_passages_of_its_turn_is_unknown():
    llm, _ = scripted("Mint [2]. Sage [3][4]. Tea [4].")
    results = found(a_turn(), 2)  # fewer than the operator shows at most
    operator = ikat.Respond(llm, passages=5, cite=True)
    out = operator(results)
    best = results.sort_values("rank")["docno"].tolist()
    assert [one["docnos"] for one in out["qcitations"].iloc[0]] == [[best[1]], [], []]
    assert [one["unknown"] for one in out["qcitations"].iloc[0]] == [[], [3, 4], [4]]
    assert ledger(llm, "dropped") == 3  # each time
    seen = operator.while_written(results)("Mint [2]. Sage [3]. Tea")
    assert seen == while_written("Mint [2]. Sage [3]. Tea", passages=2)
    assert seen != while_written("Mint [2]. Sage [3]. Tea", passages=5)


def test_a_turn_has_cited_passages_as_sources_in_text_order():
    llm, _ = scripted("Mint [3]. Ginger [1][3].", "Rooibos.")
    results = ikat.Respond(llm, passages=3, cite=True)(found(two_turns(), 4))
    one = Turn.of(1, "tea?", results[results["qid"] == "chat_2"])
    other = Turn.of(1, "tea?", results[results["qid"] == "other_1"])
    ranking = results[results["qid"] == "chat_2"].sort_values("rank")["docno"].tolist()
    assert [source.docno for source in one.sources] == [ranking[2], ranking[0]]
    assert (one.response, one.marked) == ("Mint. Ginger.", "Mint. [1] Ginger. [2][1]")
    assert (other.sources, len(other.shown), other.cites_none) == ((), 3, True)
    assert "cites none of the passages" in repr(other)
    assert Turn.read(json.loads(json.dumps(one.record()))) == one


def test_a_fallback_cites_its_own_passage_and_no_number_in_it():
    llm, _ = scripted("[1]")
    results = found(a_turn(), 2).assign(text="Ginger [2] warms. It is hot.")
    out = ikat.Respond(llm, cite=True, on_error="fallback")(results)
    assert out["qanswer"].iloc[0] == "Ginger [2] warms. It is hot."
    best = out.sort_values("rank")["docno"].iloc[0]
    assert [one["docnos"] for one in out["qcitations"].iloc[0]] == [[best], [best]]


def test_a_response_without_a_passage_has_no_citations():
    llm, _ = scripted("Ginger [1].")
    results = found(two_turns(), 1).assign(qaction=["answer", "abstain"], qaskback="")
    out = ikat.Respond(llm, cite=True)(results)
    assert out["qcitations"].tolist()[1] is None
    assert out["used"].tolist() == [True, False]


def test_the_last_stage_that_can_cite_does():
    llm, _ = scripted()
    first = ikat.Respond(llm, 3)
    last = ikat.Respond(llm, 5, words=50)
    turned = citing(first >> ikat.Interleave() >> last >> ikat.Interleave())
    assert repr(turned) == repr(
        first >> ikat.Interleave() >> ikat.Respond(llm, 5, words=50, cite=True) >> ikat.Interleave()
    )
    assert citing(turned) == turned
    assert citing(last) == ikat.Respond(llm, 5, words=50, cite=True)
    assert citing(ikat.Answer(llm)) == ikat.Answer(llm)
    recorded = ikat.Respond(ikat.llm("recorded:sample"))
    assert citing(recorded) is recorded  # nobody asked for citations when they were written
