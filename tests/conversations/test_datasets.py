import gzip
import json
import sys

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.datasets import DATASETS, IkatDataset, IkatProvider
from pyterrier_ikat.conversations.download import OtherDataWarning
from pyterrier_ikat.conversations.own_data import SampleDataset
from pyterrier_ikat.conversations.qrels import read_qrels
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.progress import Line

OF_IKAT = [name for name in DATASETS if ":" not in name]
TOPIC_COLUMNS = ["qid", "query", "qutterance", "qhistory", "qptkb", "qconversation", "qturn"]


@pytest.fixture
def get(monkeypatch):
    """``pt.get_dataset`` with our provider, whether or not the package is installed."""
    monkeypatch.setitem(pt.datasets._core._loaded_providers, "ikat", IkatProvider())
    return pt.get_dataset


@pytest.fixture
def tiny(tmp_path):
    turn = {"turn_id": 1, "utterance": "Tea?", "resolved_utterance": "Which tea?", "response": "Mint."}
    chat = {"number": "1-1", "ptkb": {"1": "a", "2": "b"}, "turns": [{**turn, "ptkb_provenance": [2], "response_provenance": ["d:1"]}]}
    (tmp_path / "topics.json").write_text(json.dumps([chat]))
    (tmp_path / "passages.jsonl").write_text("\n".join(json.dumps({"id": f"d:{i}", "contents": f"text {i}", "url": "u"}) for i in range(2)))
    (tmp_path / "qrels.txt").write_text("1-1_1 0 d:1 4\n1-1_1 0 d:0 0\n")
    (tmp_path / "qrels.ptkb.txt").write_text("1-1_1 0 1 0\n1-1_1 0 2 1\n")
    return SampleDataset(tmp_path)


def test_a_sample_folder_offers_everything(tiny):
    topics = tiny.get_topics()
    assert list(topics) == TOPIC_COLUMNS
    assert topics["qid"].tolist() == ["1-1_1"]
    assert tiny.get_topics("manual")["qresolved"].tolist() == ["Which tea?"]
    assert tiny.get_qrels().values.tolist() == [["1-1_1", "d:1", 4], ["1-1_1", "d:0", 0]]
    assert tiny.get_qrels("ptkb").values.tolist() == [["1-1_1", "1", 0], ["1-1_1", "2", 1]]
    assert tiny.get_qrels("provenance").values.tolist() == [["1-1_1", "d:1", 1]]
    assert tiny.get_answers().values.tolist() == [["1-1_1", "Mint."]]
    assert list(tiny.get_corpus_iter(verbose=False)) == [{"docno": f"d:{i}", "text": f"text {i}", "url": "u"} for i in range(2)]
    assert tiny.text_loader(["text"])(pd.DataFrame({"docno": ["d:1"]}))["text"].tolist() == ["text 1"]
    assert tiny.recorded.name == "recorded.jsonl"


def test_topics_and_judgements_come_together(tiny):
    topics, qrels = tiny.get_topicsqrels("manual")
    assert "qresolved" in topics
    assert qrels["label"].tolist() == [4, 0]


def test_progress_is_shown_unless_silenced(tiny, monkeypatch):
    shown = []
    monkeypatch.setattr(Line, "add", lambda line, entry: shown.append(entry.text))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    list(tiny.get_corpus_iter(verbose=False))
    assert shown == []
    list(tiny.get_corpus_iter())
    assert shown == ["ikat:sample passages"]


def test_the_bundled_sample_is_whole():
    data = ikat.dataset("ikat:sample")
    topics, qrels, docnos = data.get_topics(), data.get_qrels(), {passage["docno"] for passage in data.get_corpus_iter(verbose=False)}
    assert topics["qconversation"].nunique() >= 3
    assert len(topics) >= 18
    assert len(docnos) >= 200
    assert set(qrels["qid"]) == set(topics["qid"])
    assert set(qrels["docno"]) <= docnos
    assert set(qrels["label"]) == {0, 1, 2, 3, 4}
    assert qrels.groupby("qid").size().min() >= 4
    assert data.recorded.is_file()
    judged = {(qid, docno): label for qid, docno, label in qrels.values.tolist()}
    assert all(judged[qid, docno] >= 2 for qid, docno in data.get_qrels("provenance")[["qid", "docno"]].values.tolist())


def test_the_sample_ptkb_qrels_are_its_topics_own():
    data, keys = ikat.dataset("ikat:sample"), ["qid", "docno"]
    own = pd.concat(
        [pd.DataFrame({"qid": qid, "docno": list(ptkb), "label": 0}) for qid, ptkb in data.get_topics()[["qid", "qptkb"]].values]
    )
    gold = {(qid, name) for qid, names in data.get_topics("manual")[["qid", "qgoldptkb"]].values.tolist() for name in names}
    own["label"] = [int(pair in gold) for pair in zip(own["qid"], own["docno"], strict=True)]
    assert own.sort_values(keys).values.tolist() == data.get_qrels("ptkb").sort_values(keys).values.tolist()


def test_mini_is_280_turns_700_passages_798_pairs(get, ikat_data):
    data = get("ikat:2023-mini")
    topics, qrels, passages = data.get_topics(), data.get_qrels(), list(data.get_corpus_iter(verbose=False))
    assert list(topics) == TOPIC_COLUMNS
    assert (len(topics), len(data.get_answers()), len(passages), len(qrels)) == (280, 280, 700, 798)
    assert set(qrels["label"]) == {1}
    assert set(qrels["qid"]) == set(topics["qid"]) == set(data.get_answers()["qid"])
    assert set(qrels["docno"]) == {passage["docno"] for passage in passages}
    pd.testing.assert_frame_equal(qrels, data.get_qrels("provenance"))


def test_mini_keeps_the_turns_without_provenance_in_the_history(get, ikat_data):
    mini, full = get("ikat:2023-mini").get_topics().set_index("qid"), get("ikat:2023").get_topics().set_index("qid")
    assert mini["qhistory"].tolist() == full.loc[mini.index, "qhistory"].tolist()
    assert mini.index.tolist() == [qid for qid in full.index if qid in set(mini.index)]


def test_few_of_nists_judgements_fall_on_the_mini_passages(get, ikat_data):
    docnos = {passage["docno"] for passage in get("ikat:2023-mini").get_corpus_iter(verbose=False)}
    nist = get("ikat:2023").get_qrels()
    assert ((nist["label"] >= 1) & nist["docno"].isin(docnos)).sum() == 123


def test_mini_ptkb_qrels_judge_its_own_turns_only(get, ikat_data):
    data = get("ikat:2023-mini")
    turns = set(data.get_topics()["qid"])
    for name in ("ptkb_nist", "ptkb_org"):
        whole = read_qrels(ikat_data / f"ptkb_rel_{name[5:]}")
        assert data.get_qrels(name).values.tolist() == [row for row in whole.values.tolist() if row[0] in turns]


def test_mini_loads_the_texts_of_its_passages(get, ikat_data):
    data = get("ikat:2023-mini")
    loaded = data.text_loader()(data.get_qrels())
    texts = {passage["docno"]: passage["text"] for passage in data.get_corpus_iter(verbose=False)}
    assert loaded["text"].tolist() == [texts[docno] for docno in loaded["docno"]]


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.download.OtherDataWarning")
def test_mini_notices_a_passage_file_that_was_cut(get, ikat_data, tmp_path, monkeypatch):
    lines = (ikat_data / "2023_test_topics_psg_text.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "2023_test_topics_psg_text.jsonl").write_text("\n".join(lines[:698]), encoding="utf-8")
    (tmp_path / "2023_test_topics.json").write_bytes((ikat_data / "2023_test_topics.json").read_bytes())
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="lacks 2 of the gold passages"):
        get("ikat:2023-mini").get_corpus_iter(verbose=False)


@pytest.mark.parametrize(("year", "turns", "judged"), [(2023, 332, 280), (2024, 218, 191), (2025, 188, 157)])
def test_every_year_has_topics_answers_and_provenance(get, ikat_data, year, turns, judged):
    data = get(f"ikat:{year}")
    assert len(data.get_topics()) == len(data.get_answers()) == turns
    assert list(data.get_topics("manual")) == [*TOPIC_COLUMNS, "qresolved", "qgoldptkb"]
    assert data.get_qrels("provenance")["qid"].nunique() == judged


def test_nist_and_ptkb_qrels_of_2023(get, ikat_data):
    data = get("ikat:2023")
    assert data.get_qrels()["qid"].nunique() == 176
    assert [data.get_qrels(name)["label"].sum() for name in ("ptkb_nist", "ptkb_org")] == [224, 182]


def test_nist_qrels_of_2024_judge_116_of_its_turns(get, ikat_data):
    data = get("ikat:2024")
    qrels = data.get_qrels()
    assert (qrels["qid"].nunique(), len(qrels), set(qrels["label"])) == (116, 20575, {0, 1, 2, 3, 4})
    assert set(qrels["qid"]) <= set(data.get_topics()["qid"])


@pytest.mark.parametrize(("year", "statements"), [(2024, 3660), (2025, 3734)])
def test_ptkb_qrels_of_later_years_are_the_topics_own(get, ikat_data, year, statements):
    qrels, topics = get(f"ikat:{year}").get_qrels("ptkb"), get(f"ikat:{year}").get_topics("manual")
    assert len(qrels) == statements == sum(map(len, topics["qptkb"]))
    assert qrels["label"].sum() == sum(map(len, topics["qgoldptkb"]))


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.download.OtherDataWarning")
@pytest.mark.parametrize("year", [2024, 2025])
def test_qrels_that_are_not_there_are_asked_for_and_then_used(get, tmp_path, monkeypatch, year):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    with pytest.raises(DataError, match=rf"no file {year}-qrels\.txt in it.*get_qrels\('provenance'\)"):
        get(f"ikat:{year}").get_qrels()
    (tmp_path / f"{year}-qrels.txt").write_text("1_1 0 d:0 2\n")
    assert get(f"ikat:{year}").get_qrels().values.tolist() == [["1_1", "d:0", 2]]


def test_the_collection_streams_from_sorted_files(get, tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    folder = tmp_path / "ikat_collection"
    folder.mkdir()
    (folder / "b.jsonl").write_text('{"id": "d:2", "contents": "two", "url": "u2"}\n')
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(b'{"id": "d:1", "contents": "one", "url": "u1"}\n'))
    assert [passage["docno"] for passage in get("ikat:2024").get_corpus_iter(verbose=False)] == ["d:1", "d:2"]


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_without_the_collection_the_error_says_what_to_do(get, tmp_path, monkeypatch, year):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        get(f"ikat:{year}").get_corpus_iter()
    message = str(caught.value)
    for part in ("ClueWeb22", "lemurproject.org", str(tmp_path / "ikat_collection"), "IKAT_DATA", "ikat:2023-mini works without"):
        assert part in message
    with pytest.raises(UsageError, match="PassageIndex"):
        get(f"ikat:{year}").text_loader()


def test_unknown_names_list_the_known_ones(get):
    known = "ikat:sample, ikat:2023-mini, ikat:2023, ikat:2023-train, ikat:2024, ikat:2025"
    with pytest.raises(UsageError, match=f"no dataset 'ikat:2018'; there are {known}"):
        ikat.dataset("ikat:2018")
    with pytest.raises(KeyError, match="2018") as caught:
        get("ikat:2018")
    assert known in str(caught.value.__cause__)


@pytest.mark.parametrize("name", OF_IKAT)
def test_unknown_variants_list_the_known_ones(get, name):
    data = get(f"ikat:{name}")
    with pytest.raises(UsageError, match=r"no topics 'gold'; there are get_topics\(\) and get_topics\('manual'\)"):
        data.get_topics("gold")
    with pytest.raises(UsageError, match=r"no qrels 'gold'; there are get_qrels\(\), .*get_qrels\('provenance'\)"):
        data.get_qrels("gold")


def test_datasets_are_listed_and_described(get):
    assert OF_IKAT == ["sample", "2023-mini", "2023", "2023-train", "2024", "2025"]
    assert IkatProvider().list_dataset_names() == list(DATASETS)
    assert get("ikat:cast:2022").get_corpus_lang() == "en"
    for name in OF_IKAT:
        data = get(f"ikat:{name}")
        assert repr(data) == f"pt.get_dataset('ikat:{name}')"
        assert (data.get_topics_lang(), data.get_corpus_lang()) == ("en", "en")
        assert data._describe_component("topics") == ["manual"]
        assert "provenance" in data._describe_component("qrels")
        assert data._describe_component("corpus") is True
        assert data._describe_component("index") is None
        assert (data.info_url() is None) == (name == "sample")
        assert 40 < len(data.summary) < 140


def test_an_experiment_runs_on_mini(get, ikat_data):
    data = get("ikat:2023-mini")
    gold = data.get_qrels().groupby("qid").head(1).assign(score=1.0, rank=0).drop(columns="label")
    perfect = pt.Transformer.from_df(gold.merge(data.get_topics()[["qid", "query"]], on="qid"))
    table = pt.Experiment([perfect], data.get_topics(), data.get_qrels(), [pt.measures.P @ 1])
    assert table["P@1"].tolist() == [1.0]


def test_a_dataset_without_a_text_loader_says_where_there_is_one():
    class Own(IkatDataset):
        name, conversations = "own:topics", ()

        def _qrels(self):
            return {}

        def _passages(self):
            return [], 0

    with pytest.raises(UsageError, match=r"own:topics has no text loader: index its passages"):
        Own().text_loader()


def test_the_training_topics_are_95_turns_of_which_76_have_provenance(get, ikat_data):
    data = get("ikat:2023-train")
    assert len(data.get_topics()) == 95
    assert data.get_qrels()["qid"].nunique() == 76


def test_the_training_topics_have_a_collection_of_their_own_without_a_licence(get, ikat_data, tmp_path):
    data = get("ikat:2023-train")
    passages = list(data.get_corpus_iter(verbose=False))
    assert len(passages) == 194
    assert data.collection() == (194, frozenset(passage["docno"] for passage in passages))
    assert set(data.get_qrels()["docno"]) == data.collection()[1]
    loaded = data.text_loader()(data.get_qrels().head(2))
    texts = {passage["docno"]: passage["text"] for passage in passages}
    assert loaded["text"].tolist() == [texts[docno] for docno in loaded["docno"]]
    index = ikat.PassageIndex(tmp_path / "index").index(iter(passages))
    found = ikat.experiment({"raw": index.bm25(), "manual": ikat.methods.METHODS["human_qr"]}, data, ["nDCG@10"], index=index)
    assert found["turns"].tolist() == [76, 76]
    assert found["nDCG@10"].is_monotonic_increasing


def test_small_training_files_are_a_collection_too(get, tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    turn = {"turn_id": 1, "utterance": "Tea?", "resolved_utterance": "Which tea?", "response": "Mint.", "response_provenance": ["d:1"]}
    (tmp_path / "2023_train_topics.json").write_text(json.dumps([{"number": "1-1", "ptkb": {"1": "a"}, "turns": [turn]}]))
    passage = {"doc_id": "d", "passage_id": 1, "passage_text": "Mint has no caffeine."}
    (tmp_path / "2023_train_topics_psg_text.jsonl").write_text(json.dumps(passage) + "\n")
    data = get("ikat:2023-train")
    with pytest.warns(OtherDataWarning):
        assert [(one["docno"], one["text"].strip()) for one in data.get_corpus_iter(verbose=False)] == [("d:1", "Mint has no caffeine.")]
    assert data.collection() == (1, frozenset({"d:1"}))


@pytest.mark.filterwarnings("default::pyterrier_ikat.conversations.download.OtherDataWarning")
def test_other_training_topics_in_the_users_folder_are_read_and_named(get, tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    turn = {"turn_id": 1, "utterance": "Tea?", "resolved_utterance": "Which tea?", "response": "Mint."}
    chat = {"number": "1-1", "ptkb": {"1": "a"}, "turns": [{**turn, "ptkb_provenance": [1], "response_provenance": ["d:1"]}]}
    (tmp_path / "2023_train_topics.json").write_text(json.dumps([chat]))
    data = get("ikat:2023-train")
    with pytest.warns(OtherDataWarning, match="2023_train_topics.json isn't the published file"):
        assert data.get_topics()["qid"].tolist() == ["1-1_1"]
    assert data.get_qrels().values.tolist() == data.get_qrels("provenance").values.tolist() == [["1-1_1", "d:1", 1]]
    assert data.get_qrels("ptkb").values.tolist() == [["1-1_1", "1", 1]]


@pytest.mark.parametrize(
    ("typed", "meant"), [("ikat:2023mini", "ikat:2023-mini"), ("2023_mini", "ikat:2023-mini"), ("ikat:smaple", "ikat:sample")]
)
def test_a_mistyped_name_is_answered_with_the_nearest_one(typed, meant):
    with pytest.raises(UsageError, match=rf"no dataset '{typed}'; did you mean {meant}\?; there are ikat:sample, "):
        ikat.dataset(typed)
