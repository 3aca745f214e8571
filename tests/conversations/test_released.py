"""The track's datasets, CAsT and CONE-RAG: real data at hand, else small files of their forms."""

import csv
import gzip
import json

import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.datasets import DATASETS, IkatProvider
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.nuggets import nugget_scores

OF_IKAT = [name for name in DATASETS if ":" not in name]
TOPIC_COLUMNS = ["qid", "query", "qutterance", "qhistory", "qptkb", "qconversation", "qturn"]
other_files = pytest.mark.filterwarnings(
    "ignore::pyterrier_ikat.conversations.download.OtherDataWarning"
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes files into the user's folder, JSON unless they are texts."""
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))

    def write(contents):
        for name, content in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return tmp_path

    return write


def test_the_bundled_sample_is_whole():
    data = ikat.dataset("ikat:sample")
    topics, qrels, docnos = (
        data.get_topics(),
        data.get_qrels(),
        {passage["docno"] for passage in data.get_corpus_iter(verbose=False)},
    )
    assert (topics["qconversation"].nunique(), len(topics), len(docnos)) == (4, 24, 230)
    assert set(qrels["qid"]) == set(topics["qid"])
    assert set(qrels["docno"]) <= docnos
    assert set(qrels["label"]) == {0, 1, 2, 3, 4}
    judged = {(qid, docno): label for qid, docno, label in qrels.values.tolist()}
    assert all(
        judged[qid, docno] >= 2
        for qid, docno in data.get_qrels("provenance")[["qid", "docno"]].values.tolist()
    )
    keys = ["qid", "docno"]
    assert (
        data._ptkb().sort_values(keys).values.tolist()
        == data.get_qrels("ptkb").sort_values(keys).values.tolist()
    )
    manual, judgements = data.get_topicsqrels("manual")
    assert (list(manual), list(judgements)) == (
        [*TOPIC_COLUMNS, "qresolved", "qgoldptkb"],
        ["qid", "docno", "label"],
    )


def test_mini_is_280_turns_700_passages_798_pairs(ikat_data):
    data, full = ikat.dataset("ikat:2023-mini"), ikat.dataset("ikat:2023")
    topics, qrels, passages = (
        data.get_topics(),
        data.get_qrels(),
        list(data.get_corpus_iter(verbose=False)),
    )
    assert list(topics) == TOPIC_COLUMNS
    assert (len(topics), len(data.get_answers()), len(passages), len(qrels)) == (280, 280, 700, 798)
    assert set(qrels["qid"]) == set(topics["qid"]) == set(data.get_answers()["qid"])
    assert set(qrels["docno"]) == {passage["docno"] for passage in passages} == data.collection()[1]
    whole = full.get_topics().set_index("qid")  # histories keep the turns without provenance
    assert topics["qhistory"].tolist() == whole.loc[topics["qid"], "qhistory"].tolist()
    assert topics["qid"].tolist() == [qid for qid in whole.index if qid in set(topics["qid"])]
    nist = full.get_qrels()
    assert ((nist["label"] >= 1) & nist["docno"].isin(data.collection()[1])).sum() == 123
    assert (
        data.get_qrels("ptkb_org").values.tolist()
        == full.get_qrels("ptkb_org").query("qid in @topics.qid").values.tolist()
    )
    texts = {passage["docno"]: passage["text"] for passage in passages}
    assert data.text_loader()(qrels)["text"].tolist() == [texts[docno] for docno in qrels["docno"]]


@pytest.mark.parametrize(
    ("name", "turns", "proved", "judged", "pairs"),
    [
        ("2023", 332, 280, 176, 34_183),
        ("2024", 218, 191, 116, 20_575),
        ("2025", 188, 157, None, None),
        ("2023-train", 95, 76, 76, None),
    ],
)
def test_every_year_has_topics_answers_and_judgements(
    ikat_data, name, turns, proved, judged, pairs
):
    data = ikat.dataset(f"ikat:{name}")
    assert len(data.get_topics()) == len(data.get_answers()) == turns
    assert data.get_qrels("provenance")["qid"].nunique() == proved
    if judged:
        assert data.get_qrels()["qid"].nunique() == judged
        assert pairs in (None, len(data.get_qrels()))
    if name == "2023":
        assert [data.get_qrels(kind)["label"].sum() for kind in ("ptkb_nist", "ptkb_org")] == [
            224,
            182,
        ]
    else:
        statements, topics = data.get_qrels("ptkb"), data.get_topics("manual")
        assert (len(statements), statements["label"].sum()) == (
            sum(map(len, topics["qptkb"])),
            sum(map(len, topics["qgoldptkb"])),
        )
    if name == "2023-train":
        assert data.collection() == (194, frozenset(data.get_qrels()["docno"]))


@other_files
@pytest.mark.parametrize(
    ("year", "wrong"),
    [(2024, "no file 2024-qrels.txt in it"), (2025, "2025-qrels.txt isn't published yet")],
)
def test_qrels_that_are_not_there_are_asked_for_and_then_used(files, year, wrong):
    files({})
    with pytest.raises(
        DataError, match=rf"{wrong}.*get_qrels\('provenance'\) takes the topics' own"
    ):
        ikat.dataset(f"ikat:{year}").get_qrels()
    files({f"{year}-qrels.txt": "1_1 0 d:0 2\n"})
    assert ikat.dataset(f"ikat:{year}").get_qrels().values.tolist() == [["1_1", "d:0", 2]]


def test_the_collection_streams_sorted_files_or_says_what_to_do(files):
    for name, what in (
        ("ikat:2025", "ClueWeb22.* ikat_collection/ in the folder that IKAT_DATA"),
        ("cast:2021", "KILT.*cast_2021"),
    ):
        files({})
        with pytest.raises(DataError, match=what):
            ikat.dataset(name).get_corpus_iter()
        with pytest.raises(UsageError, match="index its passages and take ikat.PassageIndex"):
            ikat.dataset(name).text_loader()
    folder = (
        files({"ikat_collection/b.jsonl": '{"id": "d:2", "contents": "two", "url": "u2"}\n'})
        / "ikat_collection"
    )
    (folder / "a.jsonl.gz").write_bytes(
        gzip.compress(b'{"id": "d:1", "contents": "one", "url": "u1"}\n')
    )
    corpus = ikat.dataset("ikat:2024").get_corpus_iter(verbose=False)
    assert len(corpus) == 116_838_987
    assert [passage["docno"] for passage in corpus] == ["d:1", "d:2"]


@pytest.mark.parametrize("verbose", [True, False])
def test_a_bar_of_passages_is_hidden_where_none_is_wanted(monkeypatch, verbose):
    seen = []

    def seen_bar(passages, **options):
        seen.append(options["disable"])
        return passages

    monkeypatch.setattr("pyterrier_ikat.conversations.ikat_dataset.bar", seen_bar)
    assert len(list(ikat.dataset("ikat:sample").get_corpus_iter(verbose=verbose))) > 100
    assert seen == [not verbose]


def test_the_year_2024_has_answers_and_labels_of_its_own():
    for name in ("ikat:2024", "2024"):
        data = ikat.dataset(name)
        assert type(data) is not type(ikat.dataset("ikat:2023"))
        with pytest.raises(UsageError, match="human"):
            data.get_answers("gpt5")
        with pytest.raises(UsageError, match="gpt4"):
            data.get_qrels("gpt5")


def test_names_variants_and_descriptions(monkeypatch):
    monkeypatch.setitem(pt.datasets._core._loaded_providers, "ikat", IkatProvider())
    known = ", ".join(f"ikat:{name}" for name in OF_IKAT)
    assert known.startswith("ikat:sample, ikat:2023-mini, ikat:2023, ")
    for ask in (ikat.dataset, pt.get_dataset):
        with pytest.raises(UsageError, match=f"no dataset '(ikat:)?2018'; there are {known}"):
            ask("ikat:2018")
    assert IkatProvider().list_dataset_names() == list(DATASETS)
    for name in OF_IKAT:
        data = pt.get_dataset(f"ikat:{name}")
        for what, ask in (("topics", data.get_topics), ("qrels", data.get_qrels)):
            with pytest.raises(UsageError, match=f"no {what} 'gold'; there are the default, "):
                ask("gold")
        assert repr(data) == f"pt.get_dataset('ikat:{name}')"
        assert data._describe_component("topics") == ["manual"]
        assert "provenance" in data._describe_component("qrels")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ikat:2023mini", "ikat:2023-mini"),
        ("ikat:smaple", "ikat:sample"),
        ("ikat:2020", "cast:2020"),
        ("cast:2024", "ikat:2024"),
    ],
)
def test_a_mistyped_name_gets_the_nearest_one_of_its_year(typed, meant):
    with pytest.raises(
        UsageError, match=rf"no dataset '{typed}'; did you mean {meant}\?; there are ikat:sample, "
    ):
        ikat.dataset(typed)


@other_files
def test_cast_has_its_rewrites_canonical_passages_and_judgements(files):
    asked, meant = ("Tea?", "And it?"), ("Which tea?", "Is rooibos red?")
    of_2019 = [{"number": place, "raw_utterance": text} for place, text in enumerate(asked, 1)]
    more = (
        "manual_rewritten_utterance",
        "automatic_rewritten_utterance",
        "manual_canonical_result_id",
    )
    of_2020 = [
        turn
        | dict(
            zip(
                more,
                (text, f"{turn['raw_utterance']} (tea)", f"MARCO_{turn['number']}"),
                strict=True,
            )
        )
        for turn, text in zip(of_2019, meant, strict=True)
    ]
    files(
        {
            "evaluation_topics_v1.0.json": [{"number": 31, "title": "tea", "turn": of_2019}],
            "evaluation_topics_annotated_resolved_v1.0.tsv": (
                '31_1\tWhich tea?\n31_2\tIs "rooibos" red?\n'
            ),
            "2019qrels.txt": "31_2 0 MARCO_0 1\n",
            "2020_manual_evaluation_topics_v1.0.json": [{"number": 81, "turn": of_2020}],
        }
    )
    first, data = ikat.dataset("cast:2019"), ikat.dataset("cast:2020")
    assert first.get_topics("manual")["qresolved"].tolist() == ["Which tea?", 'Is "rooibos" red?']
    assert first.get_topics()["qhistory"].tolist() == [[], [{"role": "user", "content": "Tea?"}]]
    assert first.get_qrels().values.tolist() == [["31_2", "MARCO_0", 1]]
    assert data.collection() == (38_622_444, None)
    automatic = data.get_topics("automatic")
    assert (
        automatic["query"].tolist()
        == automatic["qrewrite"].tolist()
        == ["Tea? (tea)", "And it? (tea)"]
    )
    assert automatic["query_0"].tolist() == automatic["qutterance"].tolist() == list(asked)
    assert (
        automatic["qhistory"].tolist()
        == data.get_topics()["qhistory"].tolist()
        == first.get_topics()["qhistory"].tolist()
    )
    assert data.get_topics("manual")["qresolved"].tolist() == list(meant)
    assert data.get_qrels("provenance")["docno"].tolist() == ["MARCO_1", "MARCO_2"]
    spoken = (
        data.with_responses(pt.apply.text(lambda row: f"the text of {row['docno']}"))
        .get_topics()["qhistory"]
        .tolist()[1]
    )
    assert spoken == [
        {"role": "user", "content": "Tea?"},
        {"role": "assistant", "content": "the text of MARCO_1"},
    ]
    with pytest.raises(
        UsageError, match="cast:2019 has no topics 'automatic'; there are the default, manual"
    ):
        first.get_topics("automatic")


@other_files
def test_cone_rags_parts_are_frames_of_the_usual_columns(cone_rag):
    data = cone_rag
    assert data.get_qrels("gpt4").values.tolist() == [["3_1", "d1", 2], ["3_1", "d2", 1]]
    assert data.get_answers("human").values.tolist() == [["3_1", "It has none."]]
    nuggets = data.get_nuggets()[["qid", "nugget", "relevance", "importance"]].values.tolist()
    assert nuggets == [["3_1", "No caffeine.", 3, "okay"], ["3_1", "Sweet", 1, "okay"]]
    assert data.get_nuggets("deduplicated")[["qid", "number", "nugget"]].values.tolist() == [
        ["3_1", "2", "Sweet"]
    ]
    assert data.get_responses().query("run == 'one_run'")["qanswer"].tolist() == [
        "Rooibos has no caffeine.",
        "Mint.",
    ]
    assert data.get_nugget_labels()[["run", "qid", "nugget", "label"]].values.tolist() == [
        ["nii-1", "3_1", "No caffeine.", "support"],
        ["nii-1", "3_1", "Sweet", "not_support"],
        ["nii-1", "3_1", "No caffeine.", "support"],
        ["ksu-1", "3_1", "No caffeine.", "not_support"],
    ]
    with pytest.raises(
        UsageError, match="ikat:2024 has no nuggets 'best'; there are the default, deduplicated"
    ):
        data.get_nuggets("best")


@pytest.mark.real_data
def test_the_real_files_of_cone_rag_give_the_published_counts(shared):
    data = ikat.dataset("ikat:2024")
    found = ikat.agreement(data.get_qrels("gpt4"), data.get_qrels())
    same = sum(found.confusion.loc[label, label] for label in range(5))
    assert (found.pairs, round(same / found.pairs, 4), round(found.kappa, 4)) == (
        8103,
        0.4384,
        0.2401,
    )
    assert len(data.get_qrels("gpt4")) == 32_999
    assert (len(data.get_nuggets()), data.get_nuggets()["qid"].nunique()) == (
        2_279 - 74,
        78,
    )  # of 116 turns 38 have none
    assert len(data.get_answers("human")) == 62
    assert (data.get_responses()["run"].nunique(), data.get_responses()["qid"].nunique()) == (
        19,
        79,
    )
    labels = data.get_nugget_labels()
    assert (
        len(labels),
        labels["run"].nunique(),
        labels["qid"].nunique(),
        labels["nugget"].isna().sum(),
    ) == (1_086, 6, 25, 0)
    assert len(nugget_scores(labels[labels["run"] == "nii-1"].drop(columns="nugget"))) == 25


def call(*words, fails=False):
    found = CliRunner().invoke(main, list(words))
    assert (found.exit_code != 0) == fails, found.output
    return found


@other_files
def test_one_command_each_compares_judges_nuggets_and_responses(cone_rag, tmp_path):
    assert (
        "2 pairs judged by both"
        in call("judge", "--pairs", "gpt4", "--agree", "default", "--dataset", "ikat:2024").stdout
    )
    shown = call(
        "evaluate", "published", "--of", "nuggets", "--dataset", "ikat:2024", "--format", "csv"
    ).stdout.splitlines()
    assert shown[0].startswith("run,recall,")
    assert [line.split(",")[0] for line in shown[1:]] == ["ksu-1", "nii-1"]
    assert float(shown[2].split(",")[1]) == pytest.approx(2 / 3)
    of_responses = (
        "evaluate",
        "published",
        "--of",
        "responses",
        "--dataset",
        "ikat:2024",
        "--format",
        "csv",
    )
    rows = {
        line.split(",")[0]: float(line.split(",")[2])
        for line in call(*of_responses).stdout.splitlines()[1:]
    }
    assert rows == {
        "ksu": 0.0,
        "one_run": 0.5,
    }  # its first response is the gold answer, its second has no word of it
    completion = {
        "qid": "3_1",
        "stage": "judge",
        "completion": '{"reason": "r", "nuggets": [1]}',
        "model": "m",
    }
    (tmp_path / "r.jsonl").write_text(json.dumps(completion))
    judged = call(*of_responses, "--judge", "nuggets", "--llm", f"recorded:{tmp_path / 'r.jsonl'}")
    assert "all 2 nuggets of ikat:2024" in judged.stderr
    [row, *_] = csv.DictReader(judged.stdout.splitlines())
    assert [row[name] for name in ("run", "judge", "model", "mean", "n")] == [
        "ksu",
        "nugget recall",
        "recorded",
        "0.5",
        "1",
    ]
    for of in ("responses", "nuggets"):
        output = call(
            "evaluate", "published", "--of", of, "--dataset", "ikat:sample", fails=True
        ).output
        assert "ikat:sample has no published runs: give RUNs, or --dataset ikat:2024" in " ".join(
            output.split()
        )


@pytest.fixture
def cone_rag(files):
    """Two invented turns, in the published forms."""
    turns = [
        {
            "turn_id": n,
            "utterance": "Tea?",
            "resolved_utterance": "Tea?",
            "response": "Rooibos has no caffeine.",
        }
        for n in (1, 2)
    ]
    nuggets = {
        "[1]": {"text": "No caffeine. ", "relevance": "3"},
        "[2]": {"text": "Sweet", "relevance": "1"},
    }
    nuggets["[3]"] = nuggets["[1]"]
    said = {
        "3_1": {"manual": {"nuggets": {}, "response": "It has none."}},
        "3_2": {"manual": {"nuggets": {}, "response": ""}},
    }
    files(
        {
            "2024_test_topics.json": [
                {"number": 3, "title": "t", "ptkb": {"1": "I like tea."}, "turns": turns}
            ],
            "2024-qrels.txt": "3_1 0 d1 2\n3_1 0 d2 0\n3_2 0 d1 3\n",
            "outputs/cone-rag/llm-gpt4-pool-depth-30.txt": "3_1\t0\td1 \t2\n3_1\t0\td2 \t1\n",
            "outputs/cone-rag/gold_nuggets_human.json": {"3_1": nuggets},
            "outputs/cone-rag/gold_nuggets_human_deduplicated.json": {
                "3_1": {"[2]": nuggets["[2]"]}
            },
            "outputs/cone-rag/gold_response_and_nuggets_human.json": said,
            "outputs/cone-rag/automatic_responses.json": {
                "3_1": {"one_run": "Rooibos has no caffeine.", "ksu": "Mint."},
                "3_2": {"one_run": "Mint.", "ksu": "Mint."},
            },
            "outputs/cone-rag/human-study-matching-labels.txt": (
                "7_3_1_1_nii-1\t1\n7_3_1_2_nii-1\t0\n8_3_1_3_nii-1\t1\n7_3_1_1_ksu-1\t0\n"
            ),
        }
    )
    return ikat.dataset("ikat:2024")
