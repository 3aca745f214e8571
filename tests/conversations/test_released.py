"""The track's datasets, CAsT and CONE-RAG: real data where it is at hand, small files in the published forms elsewhere."""

import gzip
import json
import sys

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.datasets import DATASETS, IkatDataset, IkatProvider
from pyterrier_ikat.conversations.qrels import read_qrels
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import nugget_agreement
from pyterrier_ikat.evaluation.nugget_labels import nugget_scores
from pyterrier_ikat.progress import Line

OF_IKAT = [name for name in DATASETS if ":" not in name]
TOPIC_COLUMNS = ["qid", "query", "qutterance", "qhistory", "qptkb", "qconversation", "qturn"]
other_files = pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.download.OtherDataWarning")


@pytest.fixture
def get(monkeypatch):
    """``pt.get_dataset`` with our provider, whether or not the package is installed."""
    monkeypatch.setitem(pt.datasets._core._loaded_providers, "ikat", IkatProvider())
    return pt.get_dataset


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes files into the user's folder, JSON unless they are texts."""
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))

    def write(**contents):
        for name, content in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return tmp_path

    return write


def test_the_bundled_sample_is_whole():
    data = ikat.dataset("ikat:sample")
    topics, qrels, docnos = data.get_topics(), data.get_qrels(), {passage["docno"] for passage in data.get_corpus_iter(verbose=False)}
    assert (topics["qconversation"].nunique(), len(topics), len(docnos)) == (4, 24, 230)
    assert set(qrels["qid"]) == set(topics["qid"])
    assert set(qrels["docno"]) <= docnos
    assert set(qrels["label"]) == {0, 1, 2, 3, 4}
    assert data.recorded.is_file()
    judged = {(qid, docno): label for qid, docno, label in qrels.values.tolist()}
    assert all(judged[qid, docno] >= 2 for qid, docno in data.get_qrels("provenance")[["qid", "docno"]].values.tolist())
    keys = ["qid", "docno"]
    assert data._ptkb().sort_values(keys).values.tolist() == data.get_qrels("ptkb").sort_values(keys).values.tolist()
    assert [list(one.columns) for one in data.get_topicsqrels("manual")] == [
        [*TOPIC_COLUMNS, "qresolved", "qgoldptkb"],
        ["qid", "docno", "label"],
    ]


def test_progress_is_shown_unless_silenced(monkeypatch):
    shown = []
    monkeypatch.setattr(Line, "change", lambda line, how, entry: shown.append(entry.text))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    list(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
    assert shown == []
    list(ikat.dataset("ikat:sample").get_corpus_iter())
    assert set(shown) == {"ikat:sample passages"}


def test_mini_is_280_turns_700_passages_798_pairs(get, ikat_data):
    data, full = get("ikat:2023-mini"), get("ikat:2023")
    topics, qrels, passages = data.get_topics(), data.get_qrels(), list(data.get_corpus_iter(verbose=False))
    assert list(topics) == TOPIC_COLUMNS
    assert (len(topics), len(data.get_answers()), len(passages), len(qrels)) == (280, 280, 700, 798)
    assert set(qrels["label"]) == {1}
    assert set(qrels["qid"]) == set(topics["qid"]) == set(data.get_answers()["qid"])
    assert set(qrels["docno"]) == {passage["docno"] for passage in passages} == data.collection()[1]
    pd.testing.assert_frame_equal(qrels, data.get_qrels("provenance"))
    whole = full.get_topics().set_index("qid")  # histories keep the turns without provenance
    assert topics["qhistory"].tolist() == whole.loc[topics["qid"], "qhistory"].tolist()
    assert topics["qid"].tolist() == [qid for qid in whole.index if qid in set(topics["qid"])]
    nist = full.get_qrels()
    assert ((nist["label"] >= 1) & nist["docno"].isin(data.collection()[1])).sum() == 123
    for name in ("ptkb_nist", "ptkb_org"):
        statements = read_qrels(ikat_data / f"ptkb_rel_{name[5:]}").values.tolist()
        assert data.get_qrels(name).values.tolist() == [row for row in statements if row[0] in set(topics["qid"])]
    texts = {passage["docno"]: passage["text"] for passage in passages}
    assert data.text_loader()(qrels)["text"].tolist() == [texts[docno] for docno in qrels["docno"]]


@pytest.mark.parametrize(
    ("name", "turns", "proved", "judged", "pairs"),
    [("2023", 332, 280, 176, 34_183), ("2024", 218, 191, 116, 20_575), ("2025", 188, 157, None, None), ("2023-train", 95, 76, 76, None)],
)
def test_every_year_has_topics_answers_and_judgements(get, ikat_data, name, turns, proved, judged, pairs):
    data = get(f"ikat:{name}")
    assert len(data.get_topics()) == len(data.get_answers()) == turns
    assert list(data.get_topics("manual")) == [*TOPIC_COLUMNS, "qresolved", "qgoldptkb"]
    assert data.get_qrels("provenance")["qid"].nunique() == proved
    if judged:
        assert data.get_qrels()["qid"].nunique() == judged
        assert pairs in (None, len(data.get_qrels()))
    if name == "2023":
        assert [data.get_qrels(kind)["label"].sum() for kind in ("ptkb_nist", "ptkb_org")] == [224, 182]
    else:
        statements, topics = data.get_qrels("ptkb"), data.get_topics("manual")
        assert (len(statements), statements["label"].sum()) == (sum(map(len, topics["qptkb"])), sum(map(len, topics["qgoldptkb"])))


def test_the_training_topics_have_a_collection_of_their_own_without_a_licence(get, ikat_data, tmp_path):
    data = get("ikat:2023-train")
    passages = list(data.get_corpus_iter(verbose=False))
    assert data.collection() == (194, frozenset(passage["docno"] for passage in passages))
    assert set(data.get_qrels()["docno"]) == data.collection()[1]
    index = ikat.PassageIndex(tmp_path / "index").index(iter(passages))
    found = ikat.experiment({"raw": index.bm25(), "manual": ikat.methods.METHODS["human_qr"]}, data, ["nDCG@10"], index=index)
    assert found["turns"].tolist() == [76, 76]
    assert found["nDCG@10"].is_monotonic_increasing


@other_files
@pytest.mark.parametrize(("year", "wrong"), [(2024, "no file 2024-qrels.txt in it"), (2025, "2025-qrels.txt isn't published yet")])
def test_qrels_that_are_not_there_are_asked_for_and_then_used(get, files, year, wrong):
    files()
    with pytest.raises(DataError, match=rf"{wrong}.*get_qrels\('provenance'\) gives the topics' own"):
        get(f"ikat:{year}").get_qrels()
    files(**{f"{year}-qrels.txt": "1_1 0 d:0 2\n"})
    assert get(f"ikat:{year}").get_qrels().values.tolist() == [["1_1", "d:0", 2]]


def test_the_collection_streams_from_sorted_files(get, tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    folder = tmp_path / "ikat_collection"
    folder.mkdir()
    (folder / "b.jsonl").write_text('{"id": "d:2", "contents": "two", "url": "u2"}\n')
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(b'{"id": "d:1", "contents": "one", "url": "u1"}\n'))
    corpus = get("ikat:2024").get_corpus_iter(verbose=False)
    assert len(corpus) == 116_838_987
    assert [passage["docno"] for passage in corpus] == ["d:1", "d:2"]


@pytest.mark.parametrize("name", ["ikat:2023", "ikat:2025", "cast:2021"])
def test_without_the_collection_the_error_says_what_to_do(tmp_path, monkeypatch, name):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    data = ikat.dataset(name)
    with pytest.raises(DataError) as caught:
        data.get_corpus_iter()
    known = ("ClueWeb22", "ikat:2023-mini works without", "ikat_collection") if data.year else ("KILT", "cast_2021_collection")
    assert [part for part in (*known, str(tmp_path), "IKAT_DATA") if part not in str(caught.value)] == []
    with pytest.raises(UsageError, match="index its passages and take ikat.PassageIndex"):
        data.text_loader()


def test_names_variants_and_descriptions(get):
    known = "ikat:sample, ikat:2023-mini, ikat:2023, ikat:2023-train, ikat:2024, ikat:2025"
    for ask in (ikat.dataset, get):
        with pytest.raises(UsageError, match=f"no dataset '(ikat:)?2018'; there are {known}"):
            ask("ikat:2018")
    assert OF_IKAT == ["sample", "2023-mini", "2023", "2023-train", "2024", "2025"]
    assert IkatProvider().list_dataset_names() == list(DATASETS)
    for name in OF_IKAT:
        data = get(f"ikat:{name}")
        with pytest.raises(UsageError, match=r"no topics 'gold'; there are get_topics\(\), get_topics\('manual'\)"):
            data.get_topics("gold")
        with pytest.raises(UsageError, match=r"no qrels 'gold'; there are get_qrels\(\), .*get_qrels\('provenance'\)"):
            data.get_qrels("gold")
        assert repr(data) == f"pt.get_dataset('ikat:{name}')"
        assert (data.get_topics_lang(), data.get_corpus_lang()) == ("en", "en")
        assert data._describe_component("topics") == ["manual"]
        assert "provenance" in data._describe_component("qrels")
        assert (data._describe_component("corpus"), data._describe_component("index")) == (True, None)
        assert (data.info_url() is None) == (name == "sample")
        assert 40 < len(data.summary) < 140


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ikat:2023mini", "ikat:2023-mini"),
        ("2023_mini", "ikat:2023-mini"),
        ("ikat:smaple", "ikat:sample"),
        ("ikat:2020", "cast:2020"),
        ("cast:2024", "ikat:2024"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest_one_of_its_year(typed, meant):
    with pytest.raises(UsageError, match=rf"no dataset '{typed}'; did you mean {meant}\?; there are ikat:sample, "):
        ikat.dataset(typed)


def test_an_experiment_runs_on_mini(get, ikat_data):
    data = get("ikat:2023-mini")
    gold = data.get_qrels().groupby("qid").head(1).assign(score=1.0, rank=0).drop(columns="label")
    perfect = pt.Transformer.from_df(gold.merge(data.get_topics()[["qid", "query"]], on="qid"))
    table = pt.Experiment([perfect], data.get_topics(), data.get_qrels(), [pt.measures.P @ 1])
    assert table["P@1"].tolist() == [1.0]


def test_a_dataset_of_ones_own_class_without_a_text_loader_says_where_there_is_one():
    class Own(IkatDataset):
        name, conversations = "own:topics", ()

        def _qrels(self):
            return {}

        def _passages(self):
            return []

    with pytest.raises(UsageError, match=r"own:topics has no text loader: index its passages"):
        Own().text_loader()
    with pytest.raises(UsageError, match=r"own:topics has no qrels: give a file of your own"):
        Own().get_qrels()


def cast_turn(number, said, **more):
    return {"number": number, "raw_utterance": said, **more}


@other_files
def test_cast_has_its_rewrites_canonical_passages_and_judgements(files):
    said = [("Tea?", "Which tea?"), ("And it?", "Is rooibos red?")]
    line = [cast_turn(number, asked, manual_rewritten_utterance=meant) for number, (asked, meant) in enumerate(said, 1)]
    of_2020 = [{**turn, "manual_canonical_result_id": f"MARCO_{turn['number']}"} for turn in line]
    for turn in of_2020:
        turn["automatic_rewritten_utterance"] = f"{turn['raw_utterance']} (tea)"
    files(
        **{
            "evaluation_topics_v1.0.json": [{"number": 31, "title": "tea", "turn": [cast_turn(1, "Tea?"), cast_turn(2, "And it?")]}],
            "evaluation_topics_annotated_resolved_v1.0.tsv": "31_1\tWhich tea?\n31_2\tIs \"rooibos\" red?\n",
            "2019qrels.txt": "31_2 0 MARCO_0 1\n",
            "2020_manual_evaluation_topics_v1.0.json": [{"number": 81, "turn": of_2020}],
            "2020qrels.txt": "81_1 0 MARCO_1 4\n",
        }
    )  # fmt: skip
    first = ikat.dataset("cast:2019")
    assert first.get_topics("manual")["qresolved"].tolist() == ["Which tea?", 'Is "rooibos" red?']
    assert first.get_topics()["qhistory"].tolist() == [[], [{"role": "user", "content": "Tea?"}]]
    assert first.get_qrels().values.tolist() == [["31_2", "MARCO_0", 1]]
    data = ikat.dataset("cast:2020")
    assert (data.collection(), repr(data)) == ((38_622_444, None), "ikat.dataset('cast:2020')")
    automatic = data.get_topics("automatic")
    assert automatic["query"].tolist() == automatic["qrewrite"].tolist() == ["Tea? (tea)", "And it? (tea)"]
    assert automatic["query_0"].tolist() == automatic["qutterance"].tolist() == ["Tea?", "And it?"]
    assert automatic["qhistory"].tolist() == data.get_topics()["qhistory"].tolist() == first.get_topics()["qhistory"].tolist()
    assert data.get_qrels("provenance")["docno"].tolist() == ["MARCO_1", "MARCO_2"]
    texts = pt.apply.text(lambda row: f"the text of {row['docno']}")
    spoken = data.with_responses(texts).get_topics()["qhistory"].tolist()[1]
    assert spoken == [{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "the text of MARCO_1"}]
    with pytest.raises(UsageError, match=r"cast:2019 has no topics 'automatic'; there are get_topics\(\), get_topics\('manual'\)"):
        first.get_topics("automatic")
    with pytest.raises(DataError, match="no file 2022-qrels.txt in it; download https://trec.nist.gov/data/cast/2022-qrels.txt into it"):
        ikat.dataset("cast:2022").get_qrels()


@pytest.fixture
def cone_rag(files):
    """Two invented turns, in the published forms."""
    turns = [{"turn_id": n, "utterance": "Tea?", "resolved_utterance": "Tea?", "response": "Rooibos has no caffeine."} for n in (1, 2)]
    nuggets = {"[1]": {"text": "No caffeine. ", "relevance": "3"}, "[2]": {"text": "Sweet", "relevance": "1"}}
    nuggets["[3]"] = nuggets["[1]"]
    said = {"3_1": {"manual": {"nuggets": {}, "response": "It has none."}}, "3_2": {"manual": {"nuggets": {}, "response": ""}}}
    files(
        **{
            "2024_test_topics.json": [{"number": 3, "title": "t", "ptkb": {"1": "I like tea."}, "turns": turns}],
            "2024-qrels.txt": "3_1 0 d1 2\n3_1 0 d2 0\n3_2 0 d1 3\n",
            "outputs/cone-rag/llm-gpt4-pool-depth-30.txt": "3_1\t0\td1 \t2\n3_1\t0\td2 \t1\n",
            "outputs/cone-rag/gold_nuggets_human.json": {"3_1": nuggets},
            "outputs/cone-rag/gold_nuggets_human_deduplicated.json": {"3_1": {"[2]": nuggets["[2]"]}},
            "outputs/cone-rag/gold_response_and_nuggets_human.json": said,
            "outputs/cone-rag/automatic_responses.json": {
                "3_1": {"one_run": "Rooibos has no caffeine.", "ksu": "Mint."},
                "3_2": {"one_run": "Mint.", "ksu": "Mint."},
            },
            "outputs/cone-rag/human-study-matching-labels.txt": "7_3_1_1_nii-1\t1\n7_3_1_2_nii-1\t0\n8_3_1_3_nii-1\t1\n7_3_1_1_ksu-1\t0\n",
        }
    )
    return ikat.dataset("ikat:2024")


@other_files
def test_cone_rags_parts_are_frames_of_the_usual_columns(cone_rag):
    data = cone_rag
    assert data.get_qrels("gpt4").values.tolist() == [["3_1", "d1", 2], ["3_1", "d2", 1]]
    assert data.get_answers("human").values.tolist() == [["3_1", "It has none."]]
    assert data.get_answers()["gold_answer"].tolist() == ["Rooibos has no caffeine."] * 2
    nuggets = data.get_nuggets()[["qid", "nugget", "relevance", "importance"]].values.tolist()
    assert nuggets == [["3_1", "No caffeine.", 3, "okay"], ["3_1", "Sweet", 1, "okay"]]
    assert data.get_nuggets("deduplicated")[["qid", "number", "nugget"]].values.tolist() == [["3_1", "2", "Sweet"]]
    assert data.get_responses().query("run == 'one_run'")["qanswer"].tolist() == ["Rooibos has no caffeine.", "Mint."]
    labels = data.get_nugget_labels()
    assert labels[["run", "qid", "nugget", "label"]].values.tolist() == [
        ["nii-1", "3_1", "No caffeine.", "support"],
        ["nii-1", "3_1", "Sweet", "not_support"],
        ["nii-1", "3_1", "No caffeine.", "support"],
        ["ksu-1", "3_1", "No caffeine.", "not_support"],
    ]
    once = labels.drop_duplicates(["run", "qid", "nugget"])
    assert nugget_agreement(once, once)["nuggets"] == 3
    for get in (data.get_answers, data.get_nuggets):
        with pytest.raises(UsageError, match=r"ikat:2024 has no \w+ 'best'; there are get_"):
            get("best")


def call(*words, fails=False):
    found = CliRunner().invoke(main, list(words))
    assert (found.exit_code != 0) == fails, found.output
    return found


@other_files
def test_one_command_each_compares_judges_nuggets_and_responses(cone_rag, tmp_path):
    assert "2 pairs judged by both" in call("agree", "gpt4", "default", "--dataset", "ikat:2024").stdout
    shown = call("evaluate", "published", "--of", "nuggets", "--dataset", "ikat:2024", "--format", "csv").stdout.splitlines()
    assert shown[0] == "run,recall,turns,nuggets"
    assert [line.split(",")[0] for line in shown[1:]] == ["ksu-1", "nii-1"]
    assert float(shown[2].split(",")[1]) == pytest.approx(2 / 3)
    of_responses = ("evaluate", "published", "--of", "responses", "--dataset", "ikat:2024", "--format", "csv")
    rows = {line.split(",")[0]: float(line.split(",")[2]) for line in call(*of_responses).stdout.splitlines()[1:]}
    assert rows == {"ksu": 0.0, "one_run": 0.5}  # its first response is the gold answer, its second has no word of it
    completion = {"qid": "3_1", "stage": "judge", "completion": '{"reason": "r", "nuggets": [1]}', "model": "m"}
    (tmp_path / "r.jsonl").write_text(json.dumps(completion))
    judged = call(*of_responses, "--judge", "nuggets", "--llm", f"recorded:{tmp_path / 'r.jsonl'}")
    assert "all 2 nuggets of ikat:2024" in judged.stderr
    assert judged.stdout.splitlines()[1].split(",")[:5] == ["ksu", "nugget recall", "recorded", "0.5", "1"]
    for of in ("responses", "nuggets"):
        output = call("evaluate", "published", "--of", of, "--dataset", "ikat:sample", fails=True).output
        assert "ikat:sample has no published runs: give RUNs, or --dataset ikat:2024" in " ".join(output.split())


@pytest.mark.real_data
def test_the_real_files_of_cone_rag_give_the_published_counts(shared):
    data = ikat.dataset("ikat:2024")
    found = ikat.agreement(data.get_qrels("gpt4"), data.get_qrels())
    same = sum(found.confusion.loc[label, label] for label in range(5))
    assert (found.pairs, round(same / found.pairs, 4), round(found.kappa, 4)) == (8103, 0.4384, 0.2401)
    assert (round(found.binary, 4), round(found.binary_kappa, 4)) == (0.6607, 0.3595)
    assert len(data.get_qrels("gpt4")) == 32_999
    assert (len(data.get_nuggets()), data.get_nuggets()["qid"].nunique()) == (2_279 - 74, 78)  # of 116 turns 38 have none
    assert len(data.get_answers("human")) == 62
    assert (data.get_responses()["run"].nunique(), data.get_responses()["qid"].nunique()) == (19, 79)
    labels = data.get_nugget_labels()
    assert (len(labels), labels["run"].nunique(), labels["qid"].nunique(), labels["nugget"].isna().sum()) == (1_086, 6, 25, 0)
    assert len(nugget_scores(labels[labels["run"] == "nii-1"].drop(columns="nugget"))) == 25
    if (shared / "outputs" / "cone-rag" / "gold_nuggets_human_deduplicated.json").is_file():
        kept = data.get_nuggets("deduplicated")
        assert (len(kept), kept["qid"].nunique()) == (1_201, 78)
        assert not kept.merge(data.get_nuggets(), on=["qid", "nugget"], how="left", indicator=True)["_merge"].ne("both").any()
