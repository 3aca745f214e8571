"""Judges of passages: what their prompts show, and which texts are read as labels."""

import json

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from fakes import scripted
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.qrels import judge_of
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.evaluation import FillingJudge, Judge, UmbrelaJudge, parse_judgement, with_gold
from pyterrier_ikat.llms import LLM, Backend, FatalLLMError, Reply, StageError
from pyterrier_ikat.llms.cache import CompletionCache


@pytest.mark.parametrize(
    ("text", "label", "reason"),
    [
        ("3", 3, ""),
        ("0\nIt is about 4 other things.", 0, "It is about 4 other things."),
        ("**4**\n\nReason: complete.", 4, "complete."),
        ("Score: 2", 2, ""),
        ("Score (0-4): 1. Touches it.", 1, "Touches it."),
        ("3/4 - it names two of the 5 sizes", 3, "it names two of the 5 sizes"),
        ("2.0", 2, ""),
        ("I would give a score of 3 because it fits.", 3, "because it fits."),
        ('```json\n{"score": 3, "reason": "It fits."}\n```', 3, "It fits."),
        ("<think>4? no, 1</think>\n1: off", 1, "off"),
    ],
)
def test_labels_that_models_send(text, label, reason):
    assert parse_judgement(text) == (label, reason, text)


@given(st.integers(0, 4), st.text(alphabet="abc XYZ 0123456789.,;-()\n", max_size=40))
def test_a_first_line_label_is_read_whatever_the_reason_says(label, reason):
    assert parse_judgement(f"{label}\nBecause {reason}").label == label


def sample_pool():
    data = pt.get_dataset("ikat:sample")
    pooled = pd.DataFrame(
        {
            "qid": ["1-1_1", "1-1_1", "1-1_2"],
            "docno": ["sample-walk-001:0", "sample-walk-001:1", "sample-walk-002:0"],
        },
        dtype=object,
    )
    return data, pooled


def test_the_judge_prompt_shows_its_parts_in_the_papers_order():
    data, pooled = sample_pool()
    frame = with_gold(pooled, data)
    gold = [["2"], [], ["99", "1"]]
    frame["qgoldptkb"] = pd.Series(gold, dtype=object)
    requests = Judge(scripted()[0]).requests(frame)
    manual = data.get_topics("manual").set_index("qid")
    answers = data.get_answers().set_index("qid")["gold_answer"]
    for request, (qid, docno), ids in zip(requests, pooled.values.tolist(), gold, strict=True):
        (message,) = request.messages
        text = message["content"]
        assert (request.qid, request.item, request.stage, request.prompt) == (
            qid,
            docno,
            "judge",
            "judge",
        )
        parts = [
            manual["qresolved"][qid],
            answers[qid],
            "Score: 4",
            frame["text"][requests.index(request)],
        ]
        places = [text.index(part) for part in parts]
        assert places == sorted(places)
        shown = []
        for number, statement in manual["qptkb"][qid].items():
            if statement in text[: places[0]]:
                shown.append(number)
        assert shown == [number for number in ids if number != "99"]
        assert text.endswith("Score:")


def test_a_passage_without_a_label_is_missing_and_never_0():
    data, pooled = sample_pool()
    llm, backend = scripted("3\nIt fits.", "The passage lists 3 trails.", "0")
    frame = with_gold(pooled, data)
    before = frame.copy()
    judged = Judge(llm)(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert judged.columns.tolist() == ["qid", "docno", "label", "reason", "raw"]
    assert judged[["docno", "label", "reason", "raw"]].values.tolist() == [
        ["sample-walk-001:0", 3, "It fits.", "3\nIt fits."],
        ["sample-walk-002:0", 0, "", "0"],
    ]
    assert judged["label"].dtype == "int64"
    assert llm.ledger.frame()["fallbacks"].tolist() == [1]
    assert len(backend.asked) == 3
    with pytest.raises(
        StageError, match="1-1_1 .nothing usable in the completion 'The passage lists 3 trails.'"
    ):
        Judge(scripted("3", "The passage lists 3 trails.", "0")[0], on_error="raise")(frame)


class Quota(Backend):
    """A backend that answers one request at a time until its quota is used up."""

    model = "quota"
    identity = {"provider": "fake", "model": "quota", "params": {}}
    asked = 0
    limit = 2

    def complete(self, requests):
        if self.asked == self.limit:
            raise FatalLLMError("the quota is used up")
        self.asked += 1
        return [Reply("2", self.model) for _ in requests]


def test_judging_again_after_a_stop_asks_only_for_uncached_pairs(tmp_path):
    data, pooled = sample_pool()
    backend = Quota()
    llm = LLM(backend, cache=CompletionCache(tmp_path / "llm.sqlite"))
    with pytest.raises(FatalLLMError, match="done and kept: 2 calls, left: 1"):
        Judge(llm)(with_gold(pooled, data))
    backend.limit = 3
    assert Judge(llm)(with_gold(pooled, data))["label"].tolist() == [2, 2, 2]
    assert backend.asked == 3
    llm.close()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (
            lambda pool: pool.assign(qid=["1-1_1", "1-1_1", "7_1"]),
            "ikat:sample lacks 1 turn of the pool .7_1.",
        ),
        (
            lambda pool: pool.assign(qid=["1-1_1", "1-1_1", "1-1-2"]),
            "like 1-1-2, the wanted ones like 1-1_2",
        ),
        (lambda pool: pool.iloc[[0, 0]], "turn 1-1_1, docno sample-walk-001:0 occurs twice"),
    ],
)
def test_pools_that_cannot_be_judged(change, word):
    data, pooled = sample_pool()
    with pytest.raises(DataError, match=word):
        Judge(scripted()[0])(with_gold(change(pooled), data))
    with pytest.raises(DataError, match="turn 1-1_1, passage sample-walk-001:0: text is None"):
        Judge(scripted()[0])(with_gold(pooled, data).assign(text=None))


TestJudge = pt.testing.transformer_test_class(lambda: Judge(ikat.llm("recorded:sample")))
UMBRELA = {
    **{
        "##final score: 3": 3,
        "Final score: 0": 0,
        "2": 2,
        "final score: 2/3": 2,
        "final score: 4": None,
        "It is good.": None,
    },
    # the number of a step is no label
    "1. The person wants a mild tea.\n\nfinal score: 3": 3,
    "**1.** Intent: a mild tea.\n**Final score: 0**": 0,
    "1. Intent\nThe person wants a mild tea.\n2. Match\nIt names one.\nFinal score: 2": 2,
    "1. Intent\nThe person wants a mild tea.\n2. Match\nIt names one.": None,
    "1. It names no tea; one more would make a score of 2.": 1,
    "1.\nThe score of 2 would need a tea.": 1,
    "1: The person wants a mild tea.": 1,
}


@pytest.mark.parametrize("said", UMBRELA)
def test_umbrela_reads_its_own_scale(said):
    llm, model = scripted(said)
    pool = pd.DataFrame(
        {
            "qid": ["1_1"],
            "docno": ["d"],
            "qresolved": ["Which tea?"],
            "text": ["Rooibos."],
            "score": [1.0],
        }
    )
    assert UmbrelaJudge(llm)(pool)["label"].tolist() == (
        [] if UMBRELA[said] is None else [UMBRELA[said]]
    )
    assert "Which tea?" in model.asked[0][-1]["content"]


def test_qrels_pairs_are_judged_again_and_who_judged_is_said(tmp_path):
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("1-1_1 0 sample-walk-001:0 2\n")
    recorded = tmp_path / "recorded.jsonl"
    line = {
        "qid": "1-1_1",
        "stage": "judge",
        "prompt": "judge_umbrela",
        "item": "sample-walk-001:0",
    }
    recorded.write_text(json.dumps(line | {"completion": "final score: 2", "model": "m"}))
    out = tmp_path / "labels.txt"
    common = ["judge", "--dataset", "ikat:sample", "--llm", f"recorded:{recorded}"]
    found = CliRunner().invoke(
        main, [*common, "--pairs", str(pairs), "--style", "umbrela", "--out", str(out)]
    )
    assert found.exit_code == 0, found.output
    assert out.read_text().split() == ["1-1_1", "0", "sample-walk-001:0", "2"]
    assert judge_of(out).endswith("/umbrela")
    assert CliRunner().invoke(main, [*common, "--out", str(tmp_path / "x")]).exit_code == 2


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
def test_only_turns_judged_by_qrels_are_judged_by_default(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    asked = [{"role": "user", "content": "Tea?"}]
    turn = {"messages": asked, "resolved": "Which tea?", "answer": "Rooibos."}
    turns = [{"qid": "a_1", **turn}, {"qid": "b_1", **turn}]
    (folder / "topics.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    (folder / "passages.jsonl").write_text('{"docno": "d", "text": "Rooibos is a tea."}\n')
    (folder / "qrels.txt").write_text("a_1 0 d 2\n")
    run_file = tmp_path / "x.trec"
    recorded = tmp_path / "recorded.jsonl"
    run_file.write_text("a_1 Q0 d 1 1.0 x\nb_1 Q0 d 1 1.0 x\n")
    line = {"stage": "judge", "prompt": "judge", "item": "d", "completion": "3", "model": "m"}
    lines = [{"qid": "a_1", **line}, {"qid": "b_1", **line}]
    recorded.write_text("".join(json.dumps(line) + "\n" for line in lines))
    common = ["judge", str(run_file), "--dataset", str(folder), "--llm", f"recorded:{recorded}"]
    for more, judged in (([], ["a_1"]), (["--turns", "a_1,b_1"], ["a_1", "b_1"])):
        out = tmp_path / f"labels{len(judged)}.txt"
        done = CliRunner().invoke(main, [*common, *more, "--out", str(out)])
        assert done.exit_code == 0, done.output
        assert [line.split()[0] for line in out.read_text().splitlines()] == judged


@pytest.mark.parametrize("cut", [2, 5])
def test_a_plan_of_judging_asks_once_for_each_passage(cut):
    topics = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["Which tea?", "And now?"]})
    finds = pt.apply.generic(lambda turns: turns)
    system = finds % cut >> Judge(scripted()[0])
    plan = ikat.plan({"x": system}, topics)
    assert plan.set_index("stage").loc["judge", "calls"] == 2 * cut


def test_a_turn_without_a_gold_answer_is_no_unknown_turn():
    class Given:
        name = "mine"

        def get_topics(self, variant=None):
            return pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["Which tea?", "And cold?"]})

        def get_answers(self):
            return pd.DataFrame({"qid": ["1_1"], "gold_answer": ["Rooibos."]})

        def get_corpus_iter(self, verbose=True):
            return iter([{"docno": "d1", "text": "Rooibos is red."}])

        def text_loader(self, fields="text", verbose=False):
            return pt.apply.generic(lambda rows: rows.assign(text="Rooibos is red."))

    pooled = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["d1", "d1"]})
    judged = with_gold(pooled, ikat.dataset(Given()))
    assert judged["gold_answer"].tolist() == ["Rooibos.", ""]


def test_answers_by_schema_have_a_label_and_its_reason():
    kind = UmbrelaJudge(scripted()[0]).kind
    judged = kind.of_json({"label": 2, "reason": " Süß \n und rot. "})
    assert judged == (2, "Süß und rot.", '{"label": 2, "reason": " Süß \\n und rot. "}')
    assert kind.parse("3").label == 3
    assert kind.parse("4") is None
    assert Judge(scripted()[0]).kind.parse("4").label == 4


def test_gold_columns_stand_beside_the_pool_in_its_order():
    data, pooled = sample_pool()
    asked = []

    def load(rows):
        asked.extend(rows["docno"])
        return rows.assign(text="mine")

    backwards = pooled.iloc[::-1]
    frame = with_gold(backwards, data, pt.apply.generic(load))
    assert frame["docno"].tolist() == asked == backwards["docno"].tolist()
    assert frame["text"].tolist() == ["mine"] * 3
    gold = data.get_topics("manual").set_index("qid")
    assert frame["qresolved"].tolist() == gold.loc[backwards["qid"], "qresolved"].tolist()
    odd = pooled.assign(qid=["7_1", "7_1", "8_1"])
    with pytest.raises(DataError, match=r"lacks 2 turns of the pool \(7_1, 8_1\): .* like 1-1_1"):
        with_gold(odd, data)


@pytest.mark.parametrize(
    ("text", "label", "reason"),
    [
        # each word that names the score, and each joint between it and the number
        ("Rating: 2", 2, ""),
        ("label = 1", 1, ""),
        ("Grade is 4", 4, ""),
        ("RELEVANCE: 0", 0, ""),
        ("I rate this 3.", 3, ""),
        ("I rate it 1.", 1, ""),
        ("My rating of 2, since it is short", 2, "since it is short"),
        ("I rated the hotel 3.", None, None),
        # a number that begins the text, with the marks that may surround it
        ("(2) short", None, None),
        ("(2)", 2, ""),
        ("[1]: short", 1, "short"),
        ('"3"', 3, ""),
        ("`0`", 0, ""),
        ("_4_", 4, ""),
        ("2, short", 2, "short"),
        ("2; short", 2, "short"),
        ("2! short", 2, "short"),
        ("2 – short", 2, "short"),
        ("2 — short", 2, "short"),
        ("2 short", None, None),
        # only one number of the scale counts
        ("4", 4, ""),
        ("5", None, None),
        ("-1", None, None),
        ("Score: 7", None, None),
        ("Score: 2. Rating: 2", 2, ""),
        ("Score: 2. Rating: 3", None, None),
        # the named score counts, not the number that begins
        ("1. It fits.\n2. It is long.\nScore: 3", 3, ""),
        ("1) It fits.\n2) It is long.", None, None),
        ("1. It fits.\n**Final score: 3**", 3, ""),
        ("1. A score of 2 would need a tea.", 1, "A score of 2 would need a tea."),
        ("1. It fits.\nMy own final, whole score: 3", 1, "It fits. My own final, whole score: 3"),
        # the reason is what follows the last number, in one line, without its title
        ("2\nExplanation: half\n of it", 2, "half of it"),
        ("2\nJustification = half", 2, "half"),
        ("2\nreason: reason: half", 2, "reason: half"),
        ('{"score": 1, "reason": "Off."}', 1, "Off."),
        ("Score: 1 first. Score: 1 second.", 1, "second."),
        ("Score (0-4): 3", 3, ""),
        ("", None, None),
        # rare forms of a number
        ("3.00", 3, ""),
        ("3,0", 3, ""),
        ("3.5", None, None),
        ("03", None, None),
        ("３", None, None),
        ("Score: 3 out of 4", 3, ""),
        ("Score: 2/4. Score: 2.0", 2, ""),
        ("Score: 3／5", None, None),
        ("Score: 3／4 because", 3, "because"),
        ("3／4: good", 3, "good"),
        ("Score: 3 to 4", None, None),
        ("Score: 50%", None, None),
        ("Score\u00a0=\u00a02", 2, ""),
        ("Score：3", 3, ""),
        # reasoning, also without its beginning, is not searched
        ("Score: 4\n</think>\n2: short", 2, "short"),
        ("<think>Score: 1</think>\nScore: 2", 2, ""),
    ],
)
def test_where_the_label_and_the_reason_stand(text, label, reason):
    judgement = parse_judgement(text)
    if label is None:
        assert judgement is None
    else:
        assert judgement == (label, reason, text)


@pytest.mark.parametrize(
    ("text", "highest", "label"),
    [
        ("3", 3, 3),
        ("4", 3, None),
        ("4", 4, 4),
        ("2/3", 3, 2),
        ("2/4", 3, None),
        ("2/3", 4, None),
        ("score (0-3): 1", 3, 1),
        ("1", 1, 1),
        ("2", 1, None),
        ("9", 10, 9),
        ("10", 10, 10),
    ],
)
def test_a_label_is_on_the_scale_up_to_the_highest(text, highest, label):
    judgement = parse_judgement(text, highest)
    assert (judgement and judgement.label) == label


POOL = pd.DataFrame(
    {
        "qid": ["1_1", "1_2"],
        "docno": ["a", "b"],
        "score": [2.0, 1.0],
        "text": [f"Rooibos. {'Red. ' * 60}Leaves.", "Mint."],
        "qutterance": ["Which one?", "And?"],
        "qresolved": ["Which tea?", "And cold?"],
        "qptkb": [{"1": "I like red.", "2": "I ski."}, {"1": "I like red."}],
        "qgoldptkb": [["1"], []],
        "gold_answer": ["Take rooibos.", "Take mint."],
        "qexamples": [[("Black tea.", 4), ("Coffee.", 0)], [("Iced tea.", 3)]],
    }
)


@pytest.mark.parametrize(
    ("make", "prompt", "highest", "shown", "hidden"),
    [
        (Judge, "judge", 4, ["I like red.", "Take rooibos."], ["I ski.", "Black tea."]),
        (UmbrelaJudge, "judge_umbrela", 3, [], ["I like red.", "Take rooibos.", "Black tea."]),
        (FillingJudge, "judge_fill", 4, ["I like red.", "Black tea.", "Coffee."], ["Take rooibos"]),
    ],
)
def test_what_each_judge_shows_and_accepts(make, prompt, highest, shown, hidden):
    llm, backend = scripted(str(highest), str(highest + 1))
    judge = make(llm)
    first, second = judge.requests(POOL)
    assert [first.qid, first.item, first.prompt] == ["1_1", "a", prompt]
    assert [second.qid, second.item, second.prompt] == ["1_2", "b", prompt]
    text = first.messages[-1]["content"]
    for words in ["Which tea?", "Rooibos.", "Leaves.", *shown]:
        assert words in text
    for words in ["Mint.", "And cold?", "Which one?", *hidden]:
        assert words not in text
    properties = judge.kind.structure.schema["properties"]
    assert properties["label"]["enum"] == list(range(highest + 1))
    assert "reason" in properties
    assert judge(POOL)[["qid", "docno", "label"]].values.tolist() == [["1_1", "a", highest]]
    assert len(backend.asked) == 2


@pytest.mark.parametrize(
    ("make", "column", "refused"),
    [
        (Judge, "text", True),
        (Judge, "qresolved", True),
        (Judge, "gold_answer", True),
        (UmbrelaJudge, "text", True),
        (UmbrelaJudge, "qresolved", True),
        (UmbrelaJudge, "gold_answer", False),
        (FillingJudge, "gold_answer", False),
    ],
)
@pytest.mark.parametrize("empty", ["", "  ", None, float("nan")])
def test_a_judge_needs_the_texts_that_it_shows(make, column, refused, empty):
    judge = make(scripted("2", "2")[0])
    pool = POOL.astype(object)
    pool[column] = [POOL[column][0], empty]
    if not refused:
        assert judge(pool)["label"].tolist() == [2, 2]
        return
    with pytest.raises(DataError, match=f"turn 1_2, passage b: {column} is") as caught:
        judge(pool)
    assert ("UmbrelaJudge" in str(caught.value)) is (column == "gold_answer")


@pytest.mark.parametrize("make", [Judge, UmbrelaJudge, FillingJudge])
def test_each_column_that_a_judge_reads_is_asked_for(make):
    for column in ("text", *make.gold):
        with pytest.raises(DataError, match=f"reads {column}, which the frame lacks"):
            make(scripted()[0])(POOL.drop(columns=column))


def test_a_plan_shows_given_texts_and_stand_ins_for_others():
    """Four characters are a token: texts of 8,000 characters, and stand-ins of 100 words."""

    def total(make, pool):
        return ikat.plan({"x": make(scripted()[0])}, pool).total

    def tokens(make, pool):
        return total(make, pool)["prompt_tokens"]

    pool = POOL[:1].assign(query="Which one?")
    long = "A word. " * 1000
    for column in ("gold_answer", "qresolved"):
        with_text = tokens(Judge, pool.assign(**{column: long}))
        assert with_text > tokens(Judge, pool.drop(columns=column)) + 1500
        assert with_text > 2000
    short_answer = pool.assign(gold_answer="Tea.")
    without_answer = pool.drop(columns="gold_answer")
    assert tokens(Judge, without_answer) > tokens(Judge, short_answer) + 100
    assert total(Judge, short_answer)["completion_tokens"] > 10
    long_question = pool.assign(qutterance=long).drop(columns="qresolved")
    assert tokens(Judge, long_question) > 2000
    no_example = pool.assign(qexamples=[[]])
    unknown_examples = pool.drop(columns="qexamples")
    assert tokens(FillingJudge, unknown_examples) > tokens(FillingJudge, no_example) + 200


@pytest.mark.parametrize("make", [Judge, UmbrelaJudge, FillingJudge])
def test_a_plan_counts_one_call_per_row_of_a_pool(make):
    judge = make(scripted()[0])
    plan = ikat.plan({"x": judge}, POOL.drop(columns=list(judge.gold)).assign(query="Tea?"))
    assert plan.set_index("stage").loc["judge", "calls"] == 2
