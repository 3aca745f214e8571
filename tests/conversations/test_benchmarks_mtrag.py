"""MTRAG and MTRAG-UN: tasks, domains and collections; the released files where they are at hand."""

import json
import zipfile
from itertools import cycle

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
import pytrec_eval
from small_files import lines

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.benchmarks import COLLECTIONS, collections_of
from pyterrier_ikat.conversations.datasets import full_names
from pyterrier_ikat.conversations.topics import CollectionWarning
from pyterrier_ikat.errors import DataError, UsageError

other_files = pytest.mark.filterwarnings(
    "ignore::pyterrier_ikat.conversations.download.OtherDataWarning"
)
users_words_only = pytest.mark.filterwarnings(
    "ignore:.*the user's questions only:pyterrier_ikat.conversations.topics.CollectionWarning"
)
SUBSET = "reference_subset_with_human_evaluations.json"
REFERENCE = "mtrag-human/generation_tasks/reference.jsonl"


@pytest.fixture
def released(shared, tmp_path, monkeypatch):
    """The released files; a file that isn't the published one fails the test by its warning."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mtrag").symlink_to(shared / "mtrag")
    monkeypatch.setenv("IKAT_DATA", str(tmp_path / "data"))
    return shared / "mtrag"


def user(*questions):
    return "\n".join(f"|user|: {question}" for question in questions)


def lines_of_queries(queries):
    """qid -> what the user said, as the lines of a file of queries."""
    items = []
    for qid, said in queries.items():
        items.append({"_id": qid, "text": user(*said)})
    return lines(*items)


def task(
    qid,
    *messages,
    answer,
    label="ANSWERABLE",
    contexts=(),
    key="Answerability",
    collection=COLLECTIONS["clapnq"],
):
    said = []
    for text, speaker in zip(messages, cycle(["user", "agent"]), strict=False):
        said.append({"speaker": speaker, "text": text})
    targets = [{"speaker": "agent", "text": answer}]
    return {
        "task_id": qid,
        "input": said,
        "targets": targets,
        key: [label],
        "contexts": list(contexts),
        "Collection": collection,
    }


def context(docno, text=None):
    return {"document_id": docno} | ({} if text is None else {"text": text})


TASKS = (
    ("a<::>1", ("Tea?",), "Yes.", "ANSWERABLE", ("1-0-9",)),
    ("a<::>2", ("Tea?", "Yes.", "And that?"), "No idea.", "UNANSWERABLE", ()),
    ("b<::>1", ("Dogs?",), "Some.", "PARTIAL", ("2-0-5", "1-0-9")),
)
TEXTS = {"1-0-9": "Green tea\nGreen tea is a drink. And that is that.", "2-0-5": "\nDogs bark. "}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Small files in the published forms, at the shortest paths, by name; `write` changes one."""
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    place = tmp_path / "mtrag"

    def write(name, content):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content, encoding="utf-8")

    for domain in COLLECTIONS:
        write(f"{domain}/{domain}_rewrite.jsonl", "")
    queries = {"a<::>1": ("Tea?",), "b<::>1": ("Dogs?",), "b<::>3": ("Dogs?", "Cats?", "And fish?")}
    rewrites = {"a<::>1": ["Is there tea?"], "b<::>1": ["Dogs?"], "b<::>3": ["Do dogs eat fish?"]}
    write("clapnq/clapnq_questions.jsonl", lines_of_queries(queries))
    write("clapnq/clapnq_rewrite.jsonl", lines_of_queries(rewrites))
    write(
        "clapnq/qrels/dev.tsv",
        "query-id\tcorpus-id\tscore\na<::>1\t1-0-9\t1\nb<::>1\t2-0-5\t1\n"
        "b<::>3\t2-0-5\t1\nb<::>3\t1-0-9\t1\n",
    )
    tasks = []
    for qid, said, answer, label, docnos in TASKS:
        tasks.append(task(qid, *said, answer=answer, label=label, contexts=map(context, docnos)))
    subset = {"documents": [context(docno, text) for docno, text in TEXTS.items()], "tasks": tasks}
    write(SUBSET, json.dumps(subset))
    return write


def published_qrels(released):
    of_domains = []
    for domain in COLLECTIONS:
        path = released / "retrieval_tasks" / domain / "qrels" / "dev.tsv"
        of_domains.append(pd.read_csv(path, sep="\t"))
    return pd.concat(of_domains)


def test_mini_is_159_turns_with_150_judged_and_350_passages(released):
    data = ikat.dataset("mtrag:mini")
    topics = data.get_topics("manual")
    qrels = data.get_qrels()
    answers = data.get_answers()
    passages = list(data.get_corpus_iter(verbose=False))
    assert (len(topics), qrels["qid"].nunique(), len(qrels), len(passages)) == (159, 150, 395, 350)
    assert data.collection() == (350, frozenset(passage["docno"] for passage in passages))
    labels = answers["gold_answerability"].value_counts().to_dict()
    assert labels == {"answerable": 135, "partial": 15, "unanswerable": 7, "conversational": 2}
    published = pd.concat(
        pd.read_json(path, lines=True)
        for path in released.glob("retrieval_tasks/*/*_rewrite.jsonl")
    )
    rewrites = {qid: text.removeprefix("|user|: ") for qid, text in published.values}
    resolved = topics["qid"].map(rewrites).fillna(topics["query"])
    assert topics["qresolved"].tolist() == resolved.tolist()
    texts = {passage["docno"]: passage["text"] for passage in passages}
    assert data.text_loader()(qrels)["text"].tolist() == [texts[docno] for docno in qrels["docno"]]
    expected = published_qrels(released).query("`query-id` in @qrels.qid")
    assert sorted(map(tuple, qrels.values.tolist())) == sorted(map(tuple, expected.values.tolist()))
    subset = json.loads((released / SUBSET).read_text())
    messages = {item["task_id"]: item["input"] for item in subset["tasks"]}
    roles = {"user": "user", "agent": "assistant"}
    for turn in topics.itertuples():  # histories are the whole conversation
        said = [*turn.qhistory, {"role": "user", "content": turn.query}]
        for ours, theirs in zip(said, messages[turn.qid], strict=True):
            assert ours == {"role": roles[theirs["speaker"]], "content": theirs["text"]}
        assert (turn.qconversation, str(turn.qturn)) == tuple(turn.qid.split("<::>"))


@users_words_only
def test_the_domains_are_777_turns_with_three_published_queries(released):
    turns = {}
    pairs = {}
    for domain in COLLECTIONS:
        data = ikat.dataset(f"mtrag:{domain}")
        topics = data.get_topics("manual")
        folder = released / "retrieval_tasks" / domain
        queries = {
            "lastturn": topics,
            "questions": ikat.AllUtterances()(topics),
            "rewrite": ikat.ManualRewrite()(topics),
        }
        for kind, made in queries.items():
            published = pd.read_json(folder / f"{domain}_{kind}.jsonl", lines=True)
            assert made["qid"].tolist() == published["_id"].tolist()
            for query, text in zip(made["query"], published["text"], strict=True):
                assert query.split() == text.replace("|user|: ", "").split()
        turns[domain] = len(topics)
        pairs[domain] = len(data.get_qrels())
        assert set(data.get_qrels()["qid"]) == set(topics["qid"])
    assert turns == {"clapnq": 208, "cloud": 188, "fiqa": 180, "govt": 201}
    assert pairs == {"clapnq": 578, "cloud": 494, "fiqa": 535, "govt": 521}
    assert sum(turns.values()) == 777


def passages_by_turn(data):
    passages = {}
    for chat in data.conversations:
        for turn in chat.turns:
            passages[turn.qid] = turn.passages
    return passages


def write_reference(files):
    said = ("Dogs?", "Some.", "Cats?", "None.", "And fish?")
    items = [
        task("a<::>1", "Tea?", answer="Yes.", contexts=[context("1-0-9", TEXTS["1-0-9"])]),
        task("b<::>1", "Dogs?", answer="Some."),
        task("b<::>2", *said[:3], answer="None.", label="UNANSWERABLE"),
        task(
            "b<::>3",
            *said,
            answer="They do.",
            label="PARTIAL",
            contexts=[context("1-0-9", TEXTS["1-0-9"])],
        ),
    ]
    files(REFERENCE, lines(*items))


@other_files
def test_without_a_task_file_histories_have_user_words_and_warn(files, tmp_path):
    data = ikat.dataset("mtrag:clapnq")
    with pytest.warns(
        CollectionWarning,
        match=r"^mtrag:clapnq: histories have the user's questions only.*no file "
        r"mtrag/mtrag-human/\S+reference.jsonl in it",
    ):
        topics = data.get_topics("manual")
    assert topics[["qid", "query", "qresolved", "qconversation", "qturn"]].values.tolist() == [
        ["a<::>1", "Tea?", "Is there tea?", "a", 1],
        ["b<::>1", "Dogs?", "Dogs?", "b", 1],
        ["b<::>3", "And fish?", "Do dogs eat fish?", "b", 3],
    ]
    assert topics["qhistory"].tolist()[2] == [
        {"role": "user", "content": "Dogs?"},
        {"role": "user", "content": "Cats?"},
    ]
    assert data.get_answers().to_dict("list") == {
        "qid": ["a<::>1", "b<::>1", "b<::>3"],
        "gold_answer": [""] * 3,
    }
    assert data.get_qrels().values.tolist()[-1] == ["b<::>3", "1-0-9", 1]
    assert passages_by_turn(data)["b<::>3"] == ("2-0-5", "1-0-9")


@other_files
def test_with_a_task_file_a_domain_has_histories_and_targets(files):
    write_reference(files)
    data = ikat.dataset("mtrag:clapnq")
    every = ikat.dataset("mtrag:reference")
    history = data.get_topics()["qhistory"].tolist()[2]
    assert [(message["role"], message["content"]) for message in history] == [
        *(("user", "Dogs?"), ("assistant", "Some."), ("user", "Cats?"), ("assistant", "None."))
    ]
    assert data.get_answers().values.tolist()[2] == ["b<::>3", "They do.", "partial"]
    assert data.get_topics("manual")["qresolved"].tolist()[2] == "Do dogs eat fish?"
    assert every.get_topics("manual")[["qid", "qresolved"]].values.tolist()[2:] == [
        ["b<::>2", "Cats?"],
        ["b<::>3", "Do dogs eat fish?"],
    ]
    assert every.get_answers()["gold_answerability"].tolist() == [
        "answerable",
        "answerable",
        "unanswerable",
        "partial",
    ]
    assert every.get_qrels().values.tolist() == [["a<::>1", "1-0-9", 1], ["b<::>3", "1-0-9", 1]]
    assert [passage["docno"] for passage in every.get_corpus_iter(verbose=False)] == ["1-0-9"]


@other_files
@pytest.mark.parametrize("name", ["reference", "un-reference"])
def test_mtrag_uns_file_has_its_answerability_key_in_lower_case(files, name):
    labels = ("ANSWERABLE", "PARTIAL", "UNANSWERABLE", "UNDERSPECIFIED")
    tasks = []
    for label in labels:
        qid = f"{label.lower()}<::>1"
        tasks.append(task(qid, "Tea?", answer="Yes.", label=label, key="answerability"))
    files(
        REFERENCE if name == "reference" else REFERENCE.replace("mtrag-", "mtragun-"), lines(*tasks)
    )
    answers = ikat.dataset(f"mtrag:{name}").get_answers()
    assert answers["gold_answerability"].tolist() == [label.lower() for label in labels]


@pytest.fixture
def un(files):
    """MTRAG-UN's files: an underspecified turn has a reference passage that nobody judged."""
    both = {"key": "answerability", "contexts": [context("1-0-9", TEXTS["1-0-9"])]}
    tasks = [
        task("a<::>2", "Tea?", "Yes.", "Which?", answer="Green.", **both, collection="clapnq"),
        task(
            "b<::>1", "It?", answer="What?", label="UNDERSPECIFIED", **both, collection="ibmcloud"
        ),
        task(
            "c<::>1",
            "Dogs?",
            answer="Some.",
            key="answerability",
            contexts=[context("2-0-5", TEXTS["2-0-5"])],
            collection="ibmcloud",
        ),
    ]
    files("mtragun-human/generation_tasks/reference.jsonl", lines(*tasks))
    for domain, rows in {
        "clapnq": "a<::>2\t1-0-9\t1\n",
        "cloud": "c<::>1\t2-0-5\t1\n",
        "fiqa": "",
        "govt": "",
    }.items():
        files(
            f"mtragun-human/retrieval_tasks/qrels/{domain}.tsv",
            f"query-id\tcorpus-id\tscore\n{rows}",
        )


@other_files
def test_mtrag_un_is_judged_by_its_published_qrels(un, tmp_path):
    data = ikat.dataset("mtrag:un-reference")
    assert data.get_topics()[["qid", "query"]].values.tolist() == [
        ["a<::>2", "Which?"],
        ["b<::>1", "It?"],
        ["c<::>1", "Dogs?"],
    ]
    assert data.get_qrels().values.tolist() == [["a<::>2", "1-0-9", 1], ["c<::>1", "2-0-5", 1]]
    assert data.collection() == (2, frozenset(TEXTS))
    assert collections_of(data) == {
        "a<::>2": COLLECTIONS["clapnq"],
        "b<::>1": COLLECTIONS["cloud"],
        "c<::>1": COLLECTIONS["cloud"],
    }
    with pytest.raises(
        UsageError, match="mtrag:un-reference has no topics 'manual'; there are the default"
    ):
        data.get_topics("manual")
    whole = ikat.dataset("mtrag:un")
    cloud = ikat.dataset("mtrag:un-cloud")
    assert whole.get_qrels().equals(data.get_qrels())
    assert whole.collection() == (366_479, None)
    assert (cloud.get_topics()["qid"].tolist(), cloud.get_qrels()["qid"].tolist(), cloud.size) == (
        ["b<::>1", "c<::>1"],
        ["c<::>1"],
        72_442,
    )


def by_collection(data, frame, column):
    """collection -> qid -> docno -> the value of this column."""
    collections = collections_of(data)
    values = {collection: {} for collection in collections.values()}
    for qid, rows in frame.groupby("qid"):
        values[collections[qid]][qid] = dict(rows[["docno", column]].values.tolist())
    return values


@other_files
def test_mtrag_un_figures_are_those_of_pytrec_eval_and_ibm(un):
    data = ikat.dataset("mtrag:un-reference")
    random = np.random.default_rng(4)
    found = pd.DataFrame({"docno": [*TEXTS, *"01234567"]})
    run = data.get_topics()[["qid"]].merge(found, how="cross")
    run = pt.model.add_ranks(run.assign(score=random.random(len(run))))
    measures = "nDCG@1, nDCG@3, nDCG@5, R(rel=1)@1, R(rel=1)@3, R(rel=1)@5"
    table = ikat.experiment({"run": run}, data, measures).loc[0]
    judged = by_collection(data, data.get_qrels(), "label")
    ranked = by_collection(data, run, "score")
    # run_retrieval_eval.py: pytrec_eval for each collection, and the mean of its means, weighted by
    # turns; here, by those that are judged.
    figures = []
    for collection, of_turns in judged.items():
        evaluator = pytrec_eval.RelevanceEvaluator(of_turns, {"ndcg_cut.1,3,5", "recall.1,3,5"})
        figures.append(evaluator.evaluate(ranked[collection]))
    for theirs, ours in (("ndcg_cut", "nDCG"), ("recall", "R(rel=1)")):
        for k in (1, 3, 5):
            sizes = []
            means = []
            for turns in figures:
                sizes.append(len(turns))
                means.append(np.mean([turn[f"{theirs}_{k}"] for turn in turns.values()]))
            weighted = np.average(means, weights=sizes)
            assert table[f"{ours}@{k}"] == pytest.approx(weighted, abs=1e-9)
    assert table["turns"] == 2


@other_files
def test_passages_keep_their_published_ids(files, tmp_path):
    with pytest.raises(DataError, match=r"download https://\S+/clapnq.jsonl.zip into it"):
        ikat.dataset("mtrag:clapnq").get_corpus_iter(verbose=False)
    passages = []
    for docno, text in TEXTS.items():
        title = text.split("\n")[0]
        passages.append({"_id": docno, "id": docno, "text": text, "title": title, "url": ""})
    with zipfile.ZipFile(tmp_path / "mtrag" / "clapnq.jsonl.zip", "w") as packed:
        packed.writestr("clapnq.jsonl", lines(*passages))
    data = ikat.dataset("mtrag:clapnq")
    found = [(passage["docno"], passage["text"]) for passage in data.get_corpus_iter(verbose=False)]
    assert found == [(docno, text.strip()) for docno, text in TEXTS.items()]
    assert data.collection() == (183_408, None)
    with pytest.raises(
        UsageError,
        match=r"mtrag:clapnq has 183,408 passages, too many to hold in memory: index its passages",
    ):
        data.text_loader()
    files("clapnq.jsonl.zip", "version https://git-lfs.github.com/spec/v1")
    with pytest.raises(
        DataError, match=r"clapnq.jsonl.zip, after line 0: can't be read \(File is not a zip file\)"
    ):
        list(ikat.dataset("mtrag:clapnq").get_corpus_iter(verbose=False))


@other_files
def test_a_file_of_another_form_is_named_with_the_task(files):
    files(SUBSET, json.dumps({"documents": [], "tasks": [{"task_id": "a<::>1"}]}))
    with pytest.raises(
        DataError,
        match=r"evaluations.json, conversation 1: not of the form MTRAG \(KeyError: 'input'\); "
        r"fetch",
    ):
        ikat.dataset("mtrag:mini").get_topics()
    for turn in (
        task("a<::>2", "T", "A", answer="A"),
        task("a<::>1", "T", answer="A", label="MAYBE"),
    ):
        files(REFERENCE, lines(task("a<::>1", "T", answer="A"), turn))
        with pytest.raises(DataError, match=r"reference.jsonl, line 2: not of the form MTRAG \("):
            ikat.dataset("mtrag:reference").get_topics()


def test_the_datasets_are_known_by_name():
    names = [name for name in full_names() if name.startswith("mtrag:")]
    assert names == [
        *("mtrag:mini", "mtrag:reference"),
        *("mtrag:clapnq", "mtrag:cloud", "mtrag:fiqa", "mtrag:govt"),
        *("mtrag:un-reference", "mtrag:un"),
        *("mtrag:un-clapnq", "mtrag:un-cloud", "mtrag:un-fiqa", "mtrag:un-govt"),
    ]
    assert [ikat.dataset(name).year for name in names] == [None] * len(names)
    with pytest.raises(UsageError, match="is not a dataset of MTRAG"):
        collections_of(ikat.dataset("ikat:sample"))


@other_files
@users_words_only
def test_a_passage_judged_irrelevant_answers_no_turn(files):
    judged = "query-id\tcorpus-id\tscore\na<::>1\t1-0-9\t1\na<::>1\t2-0-5\t0\n"
    files("clapnq/qrels/dev.tsv", judged)
    tea, dogs = ikat.dataset("mtrag:clapnq").conversations
    assert [turn.passages for turn in (*tea.turns, *dogs.turns)] == [("1-0-9",), (), ()]


@other_files
def test_the_passages_of_a_file_have_their_titles_once(files):
    documents = [
        {"document_id": "a", "title": "Mint", "text": " A herb.\n"},
        {"document_id": "b", "title": None, "text": "Rye. "},
        {"document_id": "c", "title": "Oats", "text": "Oats\nA cereal."},
    ]
    asked = [
        task("x<::>1", "Tea?", answer="Yes.", contexts=[context("a"), context("c")]),
        task("y<::>1", "Rye?", answer="No.", contexts=[context("b")]),
    ]
    files(SUBSET, json.dumps({"documents": documents, "tasks": asked}))
    mini = ikat.dataset("mtrag:mini")
    assert list(mini.get_corpus_iter(verbose=False)) == [
        {"docno": "a", "text": "Mint A herb.", "url": ""},
        {"docno": "b", "text": "Rye.", "url": ""},
        {"docno": "c", "text": "Oats\nA cereal.", "url": ""},
    ]
    assert mini.get_qrels().values.tolist() == [["x<::>1", "a", 1], ["x<::>1", "c", 1]] + [
        ["y<::>1", "b", 1]
    ]
    loaded = mini.text_loader("*")(pd.DataFrame({"qid": ["x<::>1"], "docno": ["a"]}))
    assert loaded.values.tolist() == [["x<::>1", "a", "Mint A herb.", ""]]


@other_files
def test_the_passages_of_several_tasks_are_one_collection(files):
    asked = [
        task("x<::>1", "Tea?", answer="Yes.", contexts=[context("1-0-9", TEXTS["1-0-9"])]),
        task("y<::>1", "Rye?", answer="No.", contexts=[context("2-0-5", TEXTS["2-0-5"])]),
        task("z<::>1", "Hm?", answer="What?"),
    ]
    files(REFERENCE, lines(*asked))
    data = ikat.dataset("mtrag:reference")
    assert data.collection() == (2, frozenset(TEXTS))
    assert [passage["text"] for passage in data.get_corpus_iter(verbose=False)] == [
        text.strip() for text in TEXTS.values()
    ]


@other_files
def test_the_collections_of_mtrag_un_are_streamed_one_by_one(files, tmp_path):
    for domain in ("govt", "clapnq", "fiqa", "cloud"):
        with zipfile.ZipFile(tmp_path / "mtrag" / f"{domain}.jsonl.zip", "w") as packed:
            packed.writestr(f"{domain}.jsonl", lines({"_id": domain, "text": "a"}))
    passages = ikat.dataset("mtrag:un").get_corpus_iter(verbose=False)
    assert [passage["docno"] for passage in passages] == ["clapnq", "cloud", "fiqa", "govt"]


@other_files
def test_a_domain_is_judged_by_its_qrels_not_by_the_tasks(files):
    write_reference(files)
    data = ikat.dataset("mtrag:clapnq")
    assert passages_by_turn(data) == {
        "a<::>1": ("1-0-9",),
        "b<::>1": ("2-0-5",),
        "b<::>3": ("2-0-5", "1-0-9"),
    }
    clapnq = COLLECTIONS["clapnq"]
    assert collections_of(data) == {"a<::>1": clapnq, "b<::>1": clapnq, "b<::>3": clapnq}
    assert data.summary.startswith("208 turns of MTRAG")


@other_files
def test_a_domain_has_no_conversation_of_other_domains(un):
    cloud = ikat.dataset("mtrag:un-cloud")
    assert [chat.number for chat in cloud.conversations] == ["b", "c"]
    assert cloud.clusters("conversation") == {"b<::>1": "b", "c<::>1": "c"}


@other_files
@users_words_only
def test_a_query_of_a_domain_has_its_number_behind_the_last_mark(files):
    said = {
        "a<::>b<::>12": ("T?", "U?"),
        "a<::>b<::>2": ("|user|: V?",),
        "a<::>b<::>3": ("W?",),
    }
    for kind in ("questions", "rewrite"):
        files(f"clapnq/clapnq_{kind}.jsonl", lines_of_queries(said))
    (chat,) = ikat.dataset("mtrag:clapnq").conversations
    assert chat.number == "a<::>b"
    assert [(turn.turn_id, turn.utterance, turn.resolved) for turn in chat.turns] == [
        (12, "U?", "U?"),
        (2, "|user|: V?", "|user|: V?"),
        (3, "W?", "W?"),
    ]
    assert [turn.history for turn in chat.turns] == [({"role": "user", "content": "T?"},), (), ()]
