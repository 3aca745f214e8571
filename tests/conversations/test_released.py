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
from pyterrier_ikat.errors import DataError, UsageError, commands_advised
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
    topics = data.get_topics()
    qrels = data.get_qrels()
    docnos = {passage["docno"] for passage in data.get_corpus_iter(verbose=False)}
    assert (topics["qconversation"].nunique(), len(topics), len(docnos)) == (4, 24, 230)
    assert set(qrels["qid"]) == set(topics["qid"])
    assert set(qrels["docno"]) <= docnos
    assert set(qrels["label"]) == {0, 1, 2, 3, 4}
    judged = {(qid, docno): label for qid, docno, label in qrels.values.tolist()}
    for qid, docno, _ in data.get_qrels("provenance").values.tolist():
        assert judged[qid, docno] >= 2
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
    data = ikat.dataset("ikat:2023-mini")
    full = ikat.dataset("ikat:2023")
    topics = data.get_topics()
    qrels = data.get_qrels()
    passages = list(data.get_corpus_iter(verbose=False))
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
        statements = data.get_qrels("ptkb")
        topics = data.get_topics("manual")
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


def test_the_year_2024_has_answers_and_labels_of_its_own():
    for name in ("ikat:2024", "2024"):
        data = ikat.dataset(name)
        with pytest.raises(
            UsageError, match="^ikat:2024 has no answers 'gpt5'; there are .*human$"
        ):
            data.get_answers("gpt5")
        with pytest.raises(UsageError, match="^ikat:2024 has no qrels 'gpt5'; there are .*gpt4"):
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
    asked = ("Tea?", "And it?")
    meant = ("Which tea?", "Is rooibos red?")
    of_2019 = [{"number": place, "raw_utterance": text} for place, text in enumerate(asked, 1)]
    of_2020 = []
    for turn, text in zip(of_2019, meant, strict=True):
        more = {
            "manual_rewritten_utterance": text,
            "automatic_rewritten_utterance": f"{turn['raw_utterance']} (tea)",
            "manual_canonical_result_id": f"MARCO_{turn['number']}",
        }
        of_2020.append(turn | more)
    files(
        {
            "evaluation_topics_v1.0.json": [{"number": 31, "title": "tea", "turn": of_2019}],
            "evaluation_topics_annotated_resolved_v1.0.tsv": (
                '31_1\tWhich tea? \n31_2\tIs "rooibos" red?\n'
            ),
            "2019qrels.txt": "31_2 0 MARCO_0 1\n",
            "2020_manual_evaluation_topics_v1.0.json": [{"number": 81, "turn": of_2020}],
        }
    )
    first = ikat.dataset("cast:2019")
    data = ikat.dataset("cast:2020")
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
    rows = {}
    for line in call(*of_responses).stdout.splitlines()[1:]:
        name, _, value, *_ = line.split(",")
        rows[name] = float(value)
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
    turn = {
        "utterance": "Tea?",
        "resolved_utterance": "Tea?",
        "response": "Rooibos has no caffeine.",
    }
    turns = [{"turn_id": 1, **turn}, {"turn_id": 2, **turn}]
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


def of_2023(turn_id, utterance, *docnos):
    return {
        "turn_id": turn_id,
        "utterance": utterance,
        "response": f"About {utterance}",
        "ptkb_provenance": [1],
        "response_provenance": list(docnos),
    }


@pytest.fixture
def year_2023(files):
    """A conversation of three turns in the form of 2023. The second has no provenance."""
    chat = {
        "number": "9-1",
        "ptkb": {"1": "I run.", "2": "I swim."},
        "turns": [of_2023(1, "tea", "d:1", "d:2"), of_2023(2, "it"), of_2023(3, "rye", "d:2")],
    }
    passages = [
        {"doc_id": "d", "passage_id": 1, "passage_text": "p1"},
        {"doc_id": "d", "passage_id": 2, "passage_text": "p2"},
    ]
    lines = "".join(json.dumps(passage) + "\n" for passage in passages)
    return files(
        {
            "2023_test_topics.json": [chat],
            "2023_train_topics.json": [chat],
            "2023_test_topics_psg_text.jsonl": lines,
            "2023_train_topics_psg_text.jsonl": lines,
            "ptkb_rel_nist": "9-1_1 0 1 1\n9-1_2 0 1 0\n9-1_3 0 2 1\n",
        }
    )


@other_files
def test_mini_is_the_turns_with_gold_passages_in_all_its_frames(year_2023):
    mini = ikat.dataset("ikat:2023-mini")
    for frame in (mini.get_topics(), mini.get_topics("manual"), mini.get_answers()):
        assert frame["qid"].tolist() == ["9-1_1", "9-1_3"]
        assert frame.index.tolist() == [0, 1]
    assert [message["content"] for message in mini.get_topics()["qhistory"][1]] == [
        *("tea", "About tea", "it", "About it")
    ]
    assert mini.get_qrels().values.tolist() == [
        ["9-1_1", "d:1", 1],
        ["9-1_1", "d:2", 1],
        ["9-1_3", "d:2", 1],
    ]
    assert mini.get_qrels("ptkb_nist").values.tolist() == [["9-1_1", "1", 1], ["9-1_3", "2", 1]]
    assert (mini.size, mini.unit, mini.page) == (700, "topic", "https://www.trecikat.com/")
    assert mini.unit_reason.startswith("Several conversations are on one topic")
    assert mini.clusters() == {"9-1_1": "9", "9-1_2": "9", "9-1_3": "9"}
    assert mini.topics_file == year_2023 / "2023_test_topics.json"
    both = mini.text_loader("*")(mini.get_qrels())
    assert both[["text", "url"]].values.tolist() == [["p1", ""], ["p2", ""], ["p2", ""]]
    assert [passage["docno"] for passage in mini.get_corpus_iter(verbose=False)] == ["d:1", "d:2"]


@other_files
def test_a_whole_year_has_all_turns_also_without_gold_passages(year_2023):
    train = ikat.dataset("ikat:2023-train")
    whole = ikat.dataset("ikat:2023")
    for data in (train, whole):
        assert data.get_topics()["qid"].tolist() == ["9-1_1", "9-1_2", "9-1_3"]
        assert data.get_answers()["gold_answer"].tolist() == ["About tea", "About it", "About rye"]
    assert train.get_qrels("ptkb")["label"].tolist() == [1, 0] * 3
    assert train.get_qrels().equals(train.get_qrels("provenance"))
    assert (train.size, whole.size, whole.collection()) == (194, 116_838_987, (116_838_987, None))
    assert whole.get_qrels("ptkb_nist")["label"].tolist() == [1, 0, 1]


TREE_OF_2022 = [
    {"number": "1-1", "participant": "User", "utterance": "Soap?"},
    {"number": "1-2", "participant": "System", "response": "Lye.", "parent": "1-1"}
    | {"provenance": ["a", "b"]},
    {"number": "1-3", "participant": "User", "utterance": "And oil?", "parent": "1-2"},
    {"number": "1-4", "participant": "System", "response": "Yes.", "parent": "1-3"}
    | {"provenance": ["a"]},
]


@pytest.fixture
def cast_2022(files):
    rewritten = []
    for turn in TREE_OF_2022:
        if "utterance" in turn:
            turn = turn | {"automatic_rewritten_utterance": f"{turn['utterance']} (made)"}
        rewritten.append(turn)
    other = {"number": 7, "turn": [{"number": "1-1", "participant": "User", "utterance": "Ale?"}]}
    files(
        {
            "2022_evaluation_topics_tree_v1.0.json": [{"number": 5, "turn": TREE_OF_2022}, other],
            "2022_automatic_evaluation_topics_tree_v1.0.json": [{"number": 5, "turn": rewritten}]
            + [other],
        }
    )
    return ikat.dataset("cast:2022")


@other_files
def test_automatic_rewrites_may_be_in_a_file_of_their_own(cast_2022):
    automatic = cast_2022.get_topics("automatic")
    assert automatic["query"].tolist() == ["Soap? (made)", "And oil? (made)", "Ale?"]
    assert automatic["qutterance"].tolist() == ["Soap?", "And oil?", "Ale?"]
    assert "qresolved" not in automatic
    assert cast_2022.topics_file.name == "2022_evaluation_topics_tree_v1.0.json"
    manual = cast_2022.get_topics("manual")
    assert manual["qresolved"].tolist() == ["Soap?", "And oil?", "Ale?"]
    assert (cast_2022.page, cast_2022.size, cast_2022.year) == (
        *("https://www.treccast.ai/", None),
        None,
    )


@other_files
def test_canonical_passages_are_loaded_once_into_a_new_dataset(cast_2022):
    asked = []

    def text(row):
        asked.append(row["docno"])
        return f"text {row['docno']}"

    spoken = cast_2022.with_responses(pt.apply.text(text))
    assert asked == ["a", "b"]
    assert spoken.get_answers().values.tolist() == [
        ["5_1-1", "text a text b"],
        ["5_1-3", "text a"],
        ["7_1-1", ""],
    ]
    assert [chat.number for chat in spoken.conversations] == ["5", "7"]
    assert cast_2022.get_answers()["gold_answer"].tolist() == ["Lye.", "Yes.", ""]


def test_passages_of_cast_are_those_of_ir_datasets(monkeypatch):
    class Source:
        def __init__(self, name):
            self.name = name

        def text_loader(self, fields="text"):
            return self.name, fields

        def _passages(self):
            return [{"docno": "d", "text": self.name, "url": ""}]

    monkeypatch.setattr("pyterrier_ikat.conversations.released.IrdsDataset", Source)
    data = ikat.dataset("cast:2019")
    assert data.text_loader("url") == ("trec-cast/v1", "url")
    assert list(data.get_corpus_iter(verbose=False)) == [
        {"docno": "d", "text": "trec-cast/v1", "url": ""}
    ]
    assert len(data.get_corpus_iter(verbose=False)) == 38_622_444


@other_files
def test_nuggets_of_other_turns_and_runs_are_kept_apart(cone_rag, tmp_path):
    folder = tmp_path / "outputs" / "cone-rag"
    tea = {"text": "Mint\n is  green.", "relevance": "2"}
    nuggets = {"3_1": {"[1]": tea, "[2]": tea}, "3_2": {"[1]": tea}}
    (folder / "gold_nuggets_human.json").write_text(json.dumps(nuggets))
    labels = "7_3_1_1_my_run\t1\n7_3_2_1_my_run\t0\n7_3_2_9_my_run\t1\n"
    (folder / "human-study-matching-labels.txt").write_text(labels)
    found = cone_rag.get_nuggets()
    assert found.values.tolist() == [
        ["3_1", "1", "Mint is green.", 2, "okay"],
        ["3_2", "1", "Mint is green.", 2, "okay"],
    ]
    assert found.index.tolist() == [0, 1]
    labelled = cone_rag.get_nugget_labels()
    assert labelled.columns.tolist() == ["run", "qid", "number", "label", "nugget", "importance"]
    assert labelled[["run", "qid", "number", "label"]].values.tolist() == [
        ["my_run", "3_1", "1", "support"],
        ["my_run", "3_2", "1", "not_support"],
        ["my_run", "3_2", "9", "support"],
    ]
    assert labelled["nugget"].isna().tolist() == [False, False, True]
    assert cone_rag.qrels_variants() == ["ptkb", "provenance", "gpt4"]
    assert cone_rag.get_answers()["gold_answer"].tolist() == ["Rooibos has no caffeine."] * 2
    assert cone_rag.get_responses().values.tolist() == [
        ["one_run", "3_1", "Rooibos has no caffeine."],
        ["ksu", "3_1", "Mint."],
        ["one_run", "3_2", "Mint."],
        ["ksu", "3_2", "Mint."],
    ]


def test_missing_judgements_are_told_with_those_that_are_there(files):
    files({"2023_test_topics.json": []})
    data = ikat.dataset("ikat:2023")
    for variant in (None, "ptkb_nist"):
        with pytest.raises(DataError, match=r"; get_qrels\('provenance'\) takes the topics' own"):
            data.get_qrels(variant)
        with (
            commands_advised(),
            pytest.raises(
                DataError, match="; `ikat evaluate --qrels provenance` takes the topics'"
            ),
        ):
            data.get_qrels(variant)
