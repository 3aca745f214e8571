"""Outputs of other teams as `recorded:NAME`, and lists of turns by name."""

import json
import warnings
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest
import requests

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import public_outputs
from pyterrier_ikat.conversations.datasets import FewerTurnsWarning, read_turns
from pyterrier_ikat.conversations.download import (
    data_file,
)
from pyterrier_ikat.conversations.public_outputs import (
    OUTPUTS,
    QUERIES,
    Output,
    origin_of,
    output_rows,
    print_origin,
    query_file,
    read_parts,
    turn_lists,
)
from pyterrier_ikat.errors import DataError, UsageError, commands_advised
from pyterrier_ikat.events import in_chain
from pyterrier_ikat.llms import Request, llm
from pyterrier_ikat.methods import find
from pyterrier_ikat.papers.published import PAPERS
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study import RepeatsWarning

NONE = "personalizedcir-none-0shot-prompt1"
pytestmark = pytest.mark.filterwarnings(
    "ignore::pyterrier_ikat.conversations.download.OtherDataWarning"
)


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """The folder of outputs beside the data folder; two invented turns in the published forms."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("IKAT_DATA", str(tmp_path / "data"))
    folder = tmp_path / "outputs"
    for name in ("personalized-cir", "cfda-2025"):
        (folder / name).mkdir(parents=True)
    for run in range(1, 6):
        lines = []
        for turn in ("9-1-3", "9-1-4"):
            rewrite = f"{turn} tea {run}\nor mint"
            answer = f"Rooibos {run}."
            lines.append(
                {"sample_id": turn, "rewrite_utt_text": rewrite, "response_utt_text": answer}
            )
        write(folder / "personalized-cir" / f"batch_None_0shot_prompt1_run{run}.jsonl", lines)
    for name, answer in (("llm4cs_temp07", "Rooibos {}."), ("chiqnpr_temp10", "")):
        drawn = {
            "predicted_rewrite": [f"tea {n}" for n in range(10)],
            "predicted_response": [answer.format(n) for n in range(10)],
        }
        write(
            folder / "cfda-2025" / f"ikat2023_test_{name}_cand10.jsonl",
            [{"sample_id": turn} | drawn for turn in ("9-1_1", "9-1_2")],
        )
    return folder


def write(path, lines):
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


def texts(model, *requests):
    return [completion.text for completion in model.ask(requests)]


def test_runs_are_samples_of_rewrite_and_answer_and_of_both(outputs):
    model = llm(f"recorded:{NONE}")
    asked = [
        Request([], "rewrite", "9-1_3", prompt="rewrite", sample=1),
        Request([], "answer", "9-1_3", prompt="answer", sample=1),
    ]
    assert texts(model, *asked) == ["9-1-3 tea 2 or mint", "Rooibos 2."]
    (both,) = model.ask([Request([], "rewrite", "9-1_3", prompt="rewrite_and_answer", sample=4)])
    assert (both.text, both.model) == (
        "Rewrite: 9-1-3 tea 5 or mint\nResponse: Rooibos 5.",
        "gpt-4o-mini, rewrite and answer composed",
    )
    [queries] = texts(model, Request([], "rewrite", "9-1_3", prompt="reformulate_queries"))
    assert queries == "Response: Rooibos 1.\nQueries: 9-1-3 tea 1 or mint"
    turns = pd.DataFrame({"qid": ["9-1_3"], "query": ["it?"]})
    drawn = ikat.Samples(ikat.RewriteAndAnswer(model), 5, ("qrewrite", "qanswer"))(turns)[
        "qsamples"
    ][0]
    assert drawn[4] == ["9-1-3 tea 5 or mint", "Rooibos 5."]


STUDIED = {
    "ptkb_none": "None_0shot_prompt2",
    "ptkb_all_queries": "All_0shot_prompt1",
    "ptkb_human": "human_0shot_prompt2",
    "ptkb_str": "LLM_0shot_prompt2",
    "ptkb_str_queries:shots=5": "LLM_5shot_prompt1",
    "ptkb_sar": "SAR_0shot",
}


@pytest.fixture
def study(outputs):
    """Write queries for each prompt and run of PersonalizedCIR, with an unknown statement."""
    for prompt in STUDIED.values():
        chosen = {"LLM_select": "7"} if "SAR" in prompt else {}
        for run in range(1, 6):
            texts = {
                "rewrite_utt_text": f"1. {prompt} {run} 2. [mint]",
                "response_utt_text": f'"Response: {run}."',
            }
            path = outputs / "personalized-cir" / f"batch_{prompt}_run{run}.jsonl"
            write(path, [{"sample_id": turn} | chosen | texts for turn in ("9-1-3", "9-1-4")])


class Asked(pt.Transformer):
    """Finds the query itself."""

    def transform(self, queries):
        return queries.assign(docno=queries["query"], score=1.0, rank=0)


@pytest.mark.parametrize(("name", "prompt"), STUDIED.items())
@pytest.mark.parametrize("by_name", [True, False])
def test_a_method_replays_its_own_prompt_of_the_study(study, name, prompt, by_name):
    model = llm("recorded:personalizedcir")
    entry = find(name)
    system = (
        entry.build(llm=model, retriever=Asked())
        if by_name
        else entry.system(model, Asked(), **entry.settings)
    )
    turns = pd.DataFrame(
        {"qid": ["9-1_3"], "query": ["it?"], "qptkb": [{"1": "I am vegan."}], "qgoldptkb": [["1"]]}
    )
    for chain in (0, 4):
        with in_chain(chain):
            [query] = system(turns)["query"]
        assert query == f'1. {prompt} {chain + 1} 2. [mint] "Response: {chain + 1}."'
    assert model.ledger.frame()["stage"].tolist() == ["rewrite"]


def test_the_papers_own_completions_are_no_deviation(study):
    entry = find("ptkb_str:shots=5")
    for given in ("recorded:personalizedcir", "recorded:personalizedcir on_error=fallback"):
        assert entry.deviations({"llm": given, "retriever": "BM25"}) == []
    assert entry.deviations({"llm": "recorded:sample", "retriever": "BM25"}) != []


def test_a_system_without_a_prompt_in_the_study_is_refused(study):
    turns = pd.DataFrame({"qid": ["9-1_3"], "query": ["tea"]})
    named = {"llm": "recorded:personalizedcir", "retriever": Asked()}
    for system, resources in (
        ("qr", named),
        ({"mine": ikat.Rewrite(llm("recorded:personalizedcir"))}, {}),
    ):
        with pytest.raises(
            UsageError, match="completions of the methods ptkb_none, .*: give it another llm"
        ):
            ikat.plan(system, topics=turns, **resources)
    with pytest.raises(
        UsageError,
        match="recorded:personalizedcir has no prompt sar-2shot: it has none-0shot-prompt1, ",
    ):
        find("ptkb_sar:shots=2").build(llm=llm("recorded:personalizedcir"), retriever=Asked())


def test_files_that_are_not_there_are_named_with_whose_they_are(outputs, monkeypatch):
    def offline(*_, **__):
        raise requests.ConnectionError("no network")

    monkeypatch.setattr(requests, "get", offline)
    whose_they_are = (
        r"prompt2_run1.jsonl into a folder .* files of outputs/personalized-cir are "
        r"from https://github.com/.*no licence"
    )
    with pytest.raises(DataError, match=whose_they_are):
        llm("recorded:personalizedcir-all-0shot-prompt2")


def test_rewrites_without_an_answer_complete_no_prompt_for_one(outputs):
    model = llm("recorded:cfda-chiq")
    assert texts(model, Request([], "rewrite", "9-1_1", prompt="rewrite_enhanced", sample=9)) == [
        "tea 9"
    ]
    with pytest.raises(
        DataError,
        match=r"recorded:cfda-chiq lacks 1 completion: 9-1_1 rewrite rewrite_and_answer: take "
        r"another llm",
    ):
        model.ask([Request([], "rewrite", "9-1_1", prompt="rewrite_and_answer")])
    with pytest.raises(
        DataError,
        match=r"9-1_1 rewrite rewrite sample 10: take another llm for it, or fewer samples",
    ):
        model.ask([Request([], "rewrite", "9-1_1", prompt="rewrite", sample=10)])


def test_whose_they_are_is_said_once_and_kept_in_the_run_folder(outputs, tmp_path, capsys):
    print_origin.cache_clear()
    topics = pd.DataFrame({"qid": ["9-1_1", "9-1_2"], "query": ["tea", "mint"]})
    index = ikat.PassageIndex(tmp_path / "index").index(
        [{"docno": "d1", "text": "tea"}, {"docno": "d2", "text": "mint 1 tea"}]
    )
    system = ikat.Rewrite(llm("recorded:cfda-llm4cs")) >> index.bm25()
    llm("recorded:cfda-chiq")
    ikat.run(
        {"QR": system},
        topics=topics,
        qrels=pd.DataFrame({"qid": ["9-1_1"], "docno": ["d1"], "label": [1]}),
        out=tmp_path / "runs",
    )
    said = capsys.readouterr().err
    assert said.count("cite Chang et al., CFDA & CLIP at TREC iKAT 2025") == 1
    assert (
        "https://github.com/gyeozai/CFDA-TREC-iKAT2025 (commit 68884f9; it states no licence)"
        in said
    )
    assert "cite Chang et al." in RunFolder(tmp_path / "runs" / "QR").parameters()["sources"][0]


def test_turns_missing_in_an_output_are_refused_before_running(outputs):
    turns = pd.DataFrame({"qid": ["9-1_3", "9-1_9"], "query": ["tea", "mint"]})
    lacks = (
        r"none-0shot-prompt1 has no completion of 1 of the 2 turns \(9-1_9\), but of 5 "
        r"samples for each of the 176 judged turns of 2023: "
    )
    with pytest.raises(UsageError, match=lacks + "give turns='judged-2023'"):
        ikat.plan({"QR": ikat.Rewrite(llm(f"recorded:{NONE}"))}, topics=turns)
    with pytest.raises(
        UsageError,
        match=r"1 of the 1 turn \(0_1\), .*: give a dataset of 2023, such as ikat:2023-mini",
    ):
        llm("recorded:cfda-llm4cs").ask([Request([], "rewrite", "0_1")])


def test_runs_take_blocks_of_samples_that_they_do_not_share(outputs):
    model = llm("recorded:cfda-llm4cs")
    for chain, first in ((0, 0), (1, 5), (2, 5)):
        with in_chain(chain):
            taken = texts(
                model,
                *(Request([], "rewrite", "9-1_1", sample=sample, samples=5) for sample in range(5)),
            )
        assert taken == [f"tea {n}" for n in range(first, first + 5)]


def test_more_runs_than_there_are_is_told_with_their_number(outputs):
    turns = pd.DataFrame({"qid": ["9-1_1"], "query": ["tea"]})
    system = {"L": ikat.Samples(ikat.RewriteAndAnswer(llm("recorded:cfda-llm4cs")), 5)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatsWarning)
        ikat.plan(system, topics=turns, repeats=2)
    with pytest.warns(
        RepeatsWarning, match="with too few completions, enough for 2 independent runs"
    ):
        ikat.plan(system, topics=turns, repeats=5)


def test_a_turn_list_has_a_name_and_those_that_are_there_count():
    with pytest.warns(FewerTurnsWarning, match="mine has 1 of the 62 turns of responses-2024"):
        assert read_turns("responses-2024", ["0_1", "0_2", "0_99"], "mine") == ["0_2"]
    with pytest.raises(
        UsageError, match=r"mine has none of the turns of irlab-2024 \(0_2, .*give turns of its own"
    ):
        read_turns("irlab-2024", ["9-1_1"], "mine")


def test_chosen_turns_are_each_once_in_the_order_of_the_dataset(tmp_path):
    known = ["1_1", "1_2", "1_3"]
    named = ["1_3", "1_1", "1_3"]
    (tmp_path / "turns.txt").write_text("\n".join(named))
    for given in (named, ",".join(named), tmp_path / "turns.txt"):
        assert read_turns(given, known, "mine") == ["1_1", "1_3"]
    assert read_turns(pd.DataFrame({"qid": named}), known, "mine") == ["1_1", "1_3"]


@pytest.mark.real_data
def test_the_lists_are_those_that_were_published(shared):
    from pyterrier_ikat.conversations import read_qrels

    for name in ("irlab-2024", "responses-2024", "responses-2023"):
        assert set(turn_lists()[name].turns) == set(
            (shared / "turns" / f"{name}.txt").read_text().split()
        )
    assert set(turn_lists()["judged-2023"].turns) == set(
        read_qrels(data_file("2023-qrels.all-turns.txt"))["qid"]
    )
    nist = read_qrels(data_file("2024-qrels.txt"))["qid"].drop_duplicates()
    left_out = {f"8_{turn}" for turn in range(4, 14)}
    without = {qid for qid in nist if not qid.startswith("9_")} - left_out
    assert set(turn_lists()["irlab-2024"].turns) == without


@pytest.mark.real_data
def test_the_real_files_are_as_published_and_have_all_samples(shared):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, turns, samples in (
            ("personalizedcir-sar-0shot", 176, 5),
            ("cfda-llm4cs", 332, 10),
            ("cfda-chiq", 332, 10),
        ):
            found = OUTPUTS[name].completions()
            assert (len({key[0] for key in found}), {len(one) for one in found.values()}) == (
                turns,
                {samples},
            )


def test_chosen_queries_are_searched_without_an_llm(tmp_path):
    path = tmp_path / "chosen.tsv"
    path.write_text("9-1_1\tIs mint safe?\n9-1_2\trooibos tea\n")
    turns = pd.DataFrame({"qid": ["9-1_2", "9-1_1"], "query": ["it?", "mint?"]})
    entry = find(f"best_of_n:queries={path}")
    assert entry.needs == ["retriever", "reranker"]
    found = entry.build(retriever=Asked(), reranker=pt.apply.doc_score(lambda row: 1.0))(turns)
    assert found[["qid", "docno", "qrewrite"]].values.tolist() == [
        ["9-1_2", "rooibos tea", "rooibos tea"],
        ["9-1_1", "Is mint safe?", "Is mint safe?"],
    ]
    with pytest.raises(UsageError, match="no system uses llm=.*: omit it"):
        ikat.plan(
            f"best_of_n:queries={path}",
            topics=turns,
            llm="recorded:sample",
            retriever=Asked(),
            reranker=Asked(),
        )
    with pytest.raises(UsageError, match="method best_of_n needs llm"):
        find("best_of_n").build(retriever=Asked(), reranker=Asked())
    before = ikat.generate.GivenQueries(path)
    with pytest.raises(DataError, match=r"has no query of 1 turn of 1 \(9-1_3\)"):
        before(turns.assign(qid=["9-1_3", "9-1_1"]).head(1))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("9-1_1 tea\n", "line 1"), ("a\tb\na\tc\n", "line 2: turn a has a query"), ("", "no query")],
)
def test_a_malformed_file_of_queries_is_refused(tmp_path, text, wrong):
    path = tmp_path / "chosen.tsv"
    path.write_text(text)
    with pytest.raises(DataError, match=wrong):
        ikat.generate.GivenQueries(path)(pd.DataFrame({"qid": ["9-1_1"], "query": ["it?"]}))


@pytest.mark.real_data
def test_the_public_choices_of_adarewriter_have_all_turns(shared):
    turns = ikat.dataset("ikat:2023").get_topics()
    for kind in ("llm4csnpr", "llm4cs"):
        name = f"queries_adarewriter10_{kind}_cand10_2023.tsv"
        lines = (shared / "outputs" / "cfda-2025" / name).read_text(encoding="utf-8").splitlines()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = ikat.generate.GivenQueries(name)(turns)
        assert (found["qid"] + "\t" + found["query"]).tolist() == [line.strip() for line in lines]


@pytest.mark.real_data
def test_each_row_of_the_study_searches_for_its_own_texts(shared):
    turns = ikat.dataset("ikat:2023").get_topics("manual")
    turns = turns[turns["qid"].isin(turn_lists()["judged-2023"].turns)].reset_index(drop=True)
    for row in PAPERS["ptkb_2024"].tables["deviations"].rows:
        name, shots, *_ = row.split("; ")
        if name == "ptkb_statement":
            continue  # its texts aren't among the copies
        statements = {
            "ptkb_str": "LLM",
            "ptkb_sar": "SAR",
            "ptkb_none": "None",
            "ptkb_all": "All",
            "ptkb_human": "human",
        }
        tail = "" if name == "ptkb_sar" else "_prompt1" if name.endswith("_queries") else "_prompt2"
        file = f"batch_{statements[name.removesuffix('_queries')]}_{shots}shot{tail}_run2.jsonl"
        lines = (
            (shared / "outputs" / "personalized-cir" / file)
            .read_text(encoding="utf-8")
            .splitlines()
        )
        texts = {}
        for sample in map(json.loads, lines):
            text = f"{sample['rewrite_utt_text']} {sample['response_utt_text']}"
            texts[sample["sample_id"]] = " ".join(text.split())
        system = find(f"{name}:shots={shots}" if shots != "0" else name).build(
            llm=llm("recorded:personalizedcir"), retriever=Asked()
        )
        with in_chain(1):
            found = system(turns)
        asked = dict(zip(found["qid"].str.replace("_", "-"), found["query"], strict=True))
        assert asked == texts, file


@pytest.mark.real_data
def test_ten_rewrites_of_llm4cs_score_as_measured(shared, tmp_path):
    data = ikat.dataset("ikat:2023-mini")
    index = ikat.PassageIndex(tmp_path / "index").index(data.get_corpus_iter(verbose=False))
    system = {"QR": ikat.Rewrite(llm("recorded:cfda-llm4cs")) >> index.bm25()}
    found = ikat.experiment(system, data, measures=["nDCG@10"])["nDCG@10"]
    assert found[0] == pytest.approx(
        0.5084, abs=5e-5
    )  # the mean of all ten is in the notebook of evidence
    sar = {"SAR": ikat.Rewrite(llm("recorded:personalizedcir-sar-0shot")) >> index.bm25()}
    with pytest.warns(
        FewerTurnsWarning, match="ikat:2023-mini has 174 of the 176 turns of judged-2023"
    ):
        found = ikat.experiment(sar, data, measures=["nDCG@10"], turns="judged-2023", repeats=5)[
            "nDCG@10"
        ]
    assert (found.mean(), found.std()) == (
        pytest.approx(0.4931, abs=5e-5),
        pytest.approx(0.0056, abs=5e-5),
    )
    with pytest.raises(
        UsageError, match=r"no completion of 106 of the 280 turns .* give turns='judged-2023'"
    ):
        ikat.plan({"QR": ikat.Rewrite(llm("recorded:personalizedcir-sar-0shot"))}, data)


def sample(turn, rewrite, answer, **chosen):
    return {"sample_id": turn, "rewrite_utt_text": rewrite, "response_utt_text": answer, **chosen}


@pytest.fixture
def output(tmp_path, monkeypatch):
    """Writes the files of an output, and gives its completions."""
    monkeypatch.setattr(public_outputs, "output_file", lambda source, name: tmp_path / name)

    def completions(**files):
        for name, lines in files.items():
            write(tmp_path / name, lines)
        return Output("mine", "me", list(files), "2 turns").completions()

    return completions


def test_the_samples_of_several_files_are_joined_turn_by_turn(output):
    found = output(
        second=[sample("5-1-3", "tea\n or  mint", "Ann:\nyes"), sample("5-1-4", "rye", "No.")],
        first=[sample("5-1-3", "tea\n or  mint", "Ann:\nyes"), sample("5-1-4", "ale", "Yes.")],
    )
    assert {turn for turn, _, _ in found} == {"5-1_3", "5-1_4"}
    assert found["5-1_3", "rewrite", None] == ("tea or mint", "tea or mint")
    assert found["5-1_3", "answer", None] == ("Ann: yes", "Ann: yes")
    assert found["5-1_4", "rewrite", "reformulate_queries"] == (
        "Response: No.\nQueries: rye",
        "Response: Yes.\nQueries: ale",
    )
    assert read_parts("Response: Ann: yes\nQueries: rye") == {
        "Response": "Ann: yes",
        "Queries": "rye",
    }
    assert {prompt for _, _, prompt in found} == {
        *(None, "rewrite_and_answer", "rewrite_and_answer_without_persona"),
        *("reformulate_rewrite", "reformulate_queries"),
    }


@pytest.mark.parametrize(("chosen", "written"), [(" I am\n vegan. ", "I am vegan."), ("", "")])
def test_statements_that_were_asked_for_are_written_before(output, chosen, written):
    found = output(a=[sample("5-1-3", "tea", "Yes.", LLM_select=chosen)])
    assert found["5-1_3", "rewrite", "reformulate_select"] == (
        f"Statements: {written}\nRewrite: tea\nResponse: Yes.",
    )


def test_a_sample_without_an_answer_leaves_rewrites_alone(output):
    drawn = {"predicted_rewrite": ["tea\nor", "rye"], "predicted_response": ["Yes.", " "]}
    found = output(a=[{"sample_id": "5-1_3", **drawn}])
    assert found == {
        ("5-1_3", "rewrite", prompt): ("tea or", "rye")
        for prompt in ("rewrite", "rewrite_short", "rewrite_enhanced")
    }
    drawn["predicted_response"] = ["A\nb", "C"]
    found = output(a=[{"sample_id": "5-1_3", **drawn}])
    assert found["5-1_3", "answer", None] == ("A b", "C")
    assert found["5-1_3", "rewrite", "rewrite_and_answer"] == (
        "Rewrite: tea or\nResponse: A b",
        "Rewrite: rye\nResponse: C",
    )


def test_a_file_of_queries_is_the_users_own_before_a_public_one(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(public_outputs, "output_file", lambda *names: asked.append(names))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    query_file(QUERIES[1])
    assert asked == [("cfda-2025", QUERIES[1])]
    (tmp_path / QUERIES[1]).write_text("")
    assert query_file(QUERIES[1]) == Path(QUERIES[1])
    assert query_file("~/mine.tsv") == tmp_path / "mine.tsv"
    assert len(asked) == 1


def test_an_output_that_cannot_be_had_says_whose_it_is(monkeypatch):
    def gone(name):
        raise DataError(f"{name} is gone")

    monkeypatch.setattr(public_outputs, "data_file", gone)
    of_files = r"^outputs/personalized-cir/\S+_run1.jsonl is gone. The 108 files of "
    with pytest.raises(
        DataError, match=rf"{of_files}outputs/personalized-cir are from https://gith"
    ):
        OUTPUTS[NONE].completions()


def test_the_rows_of_outputs_name_each_with_its_origin():
    rows = dict(output_rows())
    assert list(rows) == [
        "recorded:personalizedcir-PROMPT",
        QUERIES[0],
        "recorded:personalizedcir",
        "recorded:cfda-llm4cs",
        "recorded:cfda-chiq",
    ]
    prompts = rows["recorded:personalizedcir-PROMPT"]
    assert ", with each PROMPT of none-0shot-prompt1, none-0shot-prompt2, all-0shot" in prompts
    assert origin_of("personalized-cir") in prompts
    for name in (QUERIES[0], "recorded:cfda-llm4cs", "recorded:cfda-chiq"):
        assert origin_of("cfda-2025") in rows[name]
    assert QUERIES[0] not in rows[QUERIES[0]]
    for name in QUERIES[1:]:
        assert name in rows[QUERIES[0]]


def test_turns_that_an_output_lacks_name_those_to_give():
    part = Output("x", "cfda-2025", [], "ten samples of a part", turns="judged-2023")
    whole = Output("x", "cfda-2025", [], "ten samples of all")
    has_no = "recorded:x has no completion of 2 of the 3 turns (1_2, 1_3), but of ten samples of"

    def message(output, known):
        with pytest.raises(UsageError) as refused:
            output.check_turns({"1_3", "1_1", "1_2"}, known)
        return str(refused.value)

    assert message(part, {"1_1", "9_9"}) == f"{has_no} a part: give turns='judged-2023'"
    with commands_advised():
        assert message(part, {"1_1"}) == f"{has_no} a part: give --turns judged-2023"
    of_2023 = "give a dataset of 2023, such as ikat:2023-mini"
    assert message(whole, {"1_1"}) == f"{has_no} all: {of_2023}"
    lacks_all = has_no.replace("2 of the 3 turns (1_2,", "3 of the 3 turns (1_1, 1_2,")
    assert message(part, {"9_9"}) == f"{lacks_all} a part: {of_2023}"
    part.check_turns({"1_1"}, {"1_1", "1_2"})


def test_an_output_needs_all_turns_of_a_run():
    output = Output("x", "cfda-2025", [], "two turns", "some")
    output.check_turns({"a"}, {"a", "b"})
    with pytest.raises(
        UsageError,
        match=r"recorded:x .* of 1 of the 2 turns \(b\), but of two turns: give turns='some'",
    ):
        output.check_turns({"b", "a"}, {"a"})
    with pytest.raises(UsageError, match="give a dataset of 2023"):
        output.check_turns({"b"}, {"a"})
    with pytest.raises(UsageError, match="give a dataset of 2023"):
        Output("x", "cfda-2025", [], "two turns").check_turns({"a", "b"}, {"a"})
    assert read_parts("A: b: c\nD") == {"A": "b: c", "D": ""}
    assert "cite " in origin_of("cfda-2025")
    assert json.dumps(origin_of("cfda-2025")).startswith('"from https://github.com/gyeozai/')
