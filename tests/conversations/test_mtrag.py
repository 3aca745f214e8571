import hashlib
import json
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.datasets import IkatProvider, full_names
from pyterrier_ikat.conversations.download import SOURCES, OtherDataWarning, Source, at_hand
from pyterrier_ikat.conversations.mtrag import COUNTS, REFERENCE, RETRIEVAL, SUBSET
from pyterrier_ikat.conversations.topic_files import CollectionWarning
from pyterrier_ikat.errors import DataError, UsageError

other_files = pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.download.OtherDataWarning")
users_words_only = pytest.mark.filterwarnings(
    "ignore:.*the user's questions only:pyterrier_ikat.conversations.topic_files.CollectionWarning"
)


@pytest.fixture
def released(shared, tmp_path, monkeypatch):
    """The released files; a file that isn't the published one fails the test by its warning."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mtrag").symlink_to(shared / "mtrag")
    monkeypatch.setenv("IKAT_DATA", str(tmp_path / "data"))
    return shared / "mtrag"


def lines(*items):
    return "".join(f"{json.dumps(item)}\n" for item in items)


def user(*questions):
    return "\n".join(f"|user|: {question}" for question in questions)


def task(qid, *messages, answer, label="ANSWERABLE", contexts=()):
    said = [{"speaker": ("user", "agent")[place % 2], "text": text} for place, text in enumerate(messages)]
    targets = [{"speaker": "agent", "text": answer}]
    return {"task_id": qid, "input": said, "targets": targets, "Answerability": [label], "contexts": list(contexts)}


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

    for domain in COUNTS:
        write(f"{domain}/{domain}_rewrite.jsonl", "")
    queries = {"a<::>1": ("Tea?",), "b<::>1": ("Dogs?",), "b<::>3": ("Dogs?", "Cats?", "And fish?")}
    write("clapnq/clapnq_questions.jsonl", lines(*({"_id": qid, "text": user(*said)} for qid, said in queries.items())))
    rewrites = {"a<::>1": "Is there tea?", "b<::>1": "Dogs?", "b<::>3": "Do dogs eat fish?"}
    write("clapnq/clapnq_rewrite.jsonl", lines(*({"_id": qid, "text": user(text)} for qid, text in rewrites.items())))
    write("clapnq/qrels/dev.tsv", "query-id\tcorpus-id\tscore\na<::>1\t1-0-9\t1\nb<::>1\t2-0-5\t1\nb<::>3\t2-0-5\t1\nb<::>3\t1-0-9\t1\n")
    made = [task(qid, *said, answer=answer, label=label, contexts=map(context, docnos)) for qid, said, answer, label, docnos in TASKS]
    subset = {"documents": [context(docno, text) for docno, text in TEXTS.items()], "tasks": made}
    write("reference_subset_with_human_evaluations.json", json.dumps(subset))
    return write


def pack(folder, *passages, name="clapnq.jsonl.zip", members=("clapnq.jsonl",)):
    with zipfile.ZipFile(folder / "mtrag" / name, "w") as packed:
        for member in members:
            packed.writestr(member, lines(*passages))


PASSAGES = [{"_id": docno, "id": docno, "text": text, "title": text.split("\n")[0], "url": ""} for docno, text in TEXTS.items()]


def test_mini_is_159_turns_of_which_150_are_judged_and_350_passages(released):
    data = ikat.dataset("mtrag:mini")
    topics, qrels, answers = data.get_topics("manual"), data.get_qrels(), data.get_answers()
    passages = list(data.get_corpus_iter(verbose=False))
    assert (len(topics), qrels["qid"].nunique(), len(qrels), len(passages)) == (159, 150, 395, 350)
    assert data.collection() == (350, frozenset(passage["docno"] for passage in passages))
    assert set(qrels["docno"]) <= {passage["docno"] for passage in passages}
    assert answers["qid"].tolist() == topics["qid"].tolist()
    labels = answers["gold_answerability"].value_counts().to_dict()
    assert labels == {"answerable": 135, "partial": 15, "unanswerable": 7, "conversational": 2}
    assert set(answers["qid"][answers["gold_answerability"].isin(["answerable", "partial"])]) == set(qrels["qid"])
    published = pd.concat(pd.read_json(path, lines=True) for path in released.glob("retrieval_tasks/*/*_rewrite.jsonl"))
    rewrites = {qid: text.removeprefix("|user|: ") for qid, text in published.values}
    assert topics["qresolved"].tolist() == [rewrites.get(qid, query) for qid, query in topics[["qid", "query"]].values]
    assert sum(qid in rewrites for qid in topics["qid"]) == 150
    texts = {passage["docno"]: passage["text"] for passage in passages}
    assert data.text_loader()(qrels)["text"].tolist() == [texts[docno] for docno in qrels["docno"]]


def test_minis_histories_are_the_whole_conversation(released):
    whole = {item["task_id"]: item for item in json.loads((released / Path(SUBSET).name).read_text())["tasks"]}
    roles = {"user": "user", "assistant": "agent"}
    for turn in ikat.dataset("mtrag:mini").get_topics().itertuples():
        said = [{"speaker": roles[message["role"]], "text": message["content"]} for message in turn.qhistory]
        assert [*said, {"speaker": "user", "text": turn.query}] == whole[turn.qid]["input"]
        assert (turn.qconversation, str(turn.qturn)) == tuple(turn.qid.split("<::>"))
        assert len(turn.qhistory) == 2 * (turn.qturn - 1)


def test_minis_reference_passages_are_those_of_the_published_qrels(released):
    published = pd.concat(pd.read_csv(released / "retrieval_tasks" / domain / "qrels" / "dev.tsv", sep="\t") for domain in COUNTS)
    mini = ikat.dataset("mtrag:mini").get_qrels()
    expected = published[published["query-id"].isin(mini["qid"])]
    assert sorted(map(tuple, mini.values.tolist())) == sorted(map(tuple, expected.values.tolist()))


@users_words_only
def test_the_domains_are_777_turns_with_the_three_published_queries(released):
    turns, pairs = {}, {}
    for domain in COUNTS:
        data = ikat.dataset(f"mtrag:{domain}")
        topics = data.get_topics("manual")
        folder = released / "retrieval_tasks" / domain
        for kind, made in (
            ("lastturn", topics),
            ("questions", ikat.AllUtterances()(topics)),
            ("rewrite", ikat.ManualRewrite()(topics)),
        ):
            published = pd.read_json(folder / f"{domain}_{kind}.jsonl", lines=True)
            assert made["qid"].tolist() == published["_id"].tolist()
            expected = [" ".join(text.replace("|user|: ", "").split()) for text in published["text"]]
            assert [" ".join(text.split()) for text in made["query"]] == expected
        turns[domain], pairs[domain] = len(topics), len(data.get_qrels())
        assert set(data.get_qrels()["qid"]) == set(topics["qid"])
    assert turns == {"clapnq": 208, "cloud": 188, "fiqa": 180, "govt": 201}
    assert pairs == {"clapnq": 578, "cloud": 494, "fiqa": 535, "govt": 521}
    assert sum(turns.values()) == 777


@other_files
def test_without_the_file_of_tasks_a_domains_histories_have_the_users_words_and_a_warning_says_so(files, tmp_path):
    data = ikat.dataset("mtrag:clapnq")
    with pytest.warns(CollectionWarning, match=rf"histories have the user's questions only.*reference.jsonl into {tmp_path / 'mtrag'}"):
        topics = data.get_topics("manual")
    assert topics[["qid", "query", "qresolved", "qconversation", "qturn"]].values.tolist() == [
        ["a<::>1", "Tea?", "Is there tea?", "a", 1],
        ["b<::>1", "Dogs?", "Dogs?", "b", 1],
        ["b<::>3", "And fish?", "Do dogs eat fish?", "b", 3],
    ]
    assert topics["qhistory"].tolist()[2] == [{"role": "user", "content": "Dogs?"}, {"role": "user", "content": "Cats?"}]
    assert data.get_answers().to_dict("list") == {"qid": ["a<::>1", "b<::>1", "b<::>3"], "gold_answer": [""] * 3}
    assert data.get_qrels().values.tolist()[-1] == ["b<::>3", "1-0-9", 1]
    assert {turn.qid: turn.passages for chat in data.conversations for turn in chat.turns}["b<::>3"] == ("2-0-5", "1-0-9")


def write_reference(files, *, last="And fish?"):
    said = ("Dogs?", "Some.", "Cats?", "None.", last)
    items = [
        task("a<::>1", "Tea?", answer="Yes.", contexts=[context("1-0-9", TEXTS["1-0-9"])]),
        task("b<::>1", "Dogs?", answer="Some."),
        task("b<::>2", *said[:3], answer="None.", label="UNANSWERABLE"),
        task("b<::>3", *said, answer="They do.", label="PARTIAL", contexts=[context("1-0-9", TEXTS["1-0-9"])]),
    ]
    files("generation_tasks/reference.jsonl", lines(*items))


@other_files
def test_with_the_file_of_tasks_a_domain_has_full_histories_and_target_answers(files):
    write_reference(files)
    data = ikat.dataset("mtrag:clapnq")
    assert [message["content"] for message in data.get_topics()["qhistory"].tolist()[2]] == ["Dogs?", "Some.", "Cats?", "None."]
    assert [message["role"] for message in data.get_topics()["qhistory"].tolist()[2]] == ["user", "assistant"] * 2
    answers = data.get_answers()
    assert answers.values.tolist()[2] == ["b<::>3", "They do.", "partial"]
    assert data.get_topics("manual")["qresolved"].tolist()[2] == "Do dogs eat fish?"


@other_files
def test_all_tasks_are_a_dataset_of_their_own(files):
    write_reference(files)
    data = ikat.dataset("mtrag:reference")
    assert data.get_topics("manual")[["qid", "qresolved"]].values.tolist()[2:] == [["b<::>2", "Cats?"], ["b<::>3", "Do dogs eat fish?"]]
    assert data.get_answers()["gold_answerability"].tolist() == ["answerable", "answerable", "unanswerable", "partial"]
    assert data.get_qrels().values.tolist() == [["a<::>1", "1-0-9", 1], ["b<::>3", "1-0-9", 1]]
    assert [passage["docno"] for passage in data.get_corpus_iter(verbose=False)] == ["1-0-9"]


@other_files
def test_a_file_of_tasks_that_asks_something_else_is_refused(files):
    write_reference(files, last="And birds?")
    with pytest.raises(DataError, match=r"turn b<::>3 of mtrag:clapnq asks something else in \S+reference.jsonl: fetch it again"):
        ikat.dataset("mtrag:clapnq").get_topics()
    files("generation_tasks/reference.jsonl", lines(task("a<::>1", "Tea?", answer="Yes.")))
    with pytest.raises(DataError, match="turn b<::>1 of mtrag:clapnq is missing in"):
        ikat.dataset("mtrag:clapnq").get_topics()


@other_files
@pytest.mark.parametrize("name", ["clapnq.jsonl.zip", "clapnq.json.zip", "corpora/passage_level/clapnq.jsonl"])
def test_passages_keep_their_published_ids_and_another_number_of_them_is_named(files, tmp_path, name):
    if name.endswith(".zip"):
        pack(tmp_path, *PASSAGES, name=name)
    else:
        files(name, lines(*PASSAGES))
    data = ikat.dataset("mtrag:clapnq")
    with pytest.warns(OtherDataWarning, match=rf"{Path(name).name} has 2 passages, MTRAG's has 183,408"):
        found = list(data.get_corpus_iter(verbose=False))
    assert [(passage["docno"], passage["text"]) for passage in found] == [(docno, text.strip()) for docno, text in TEXTS.items()]
    assert data.collection() == (183_408, None)
    with pytest.raises(UsageError, match=r"mtrag:clapnq has 183,408 passages, too many to hold in memory: index them"):
        data.text_loader()


def test_as_many_passages_as_were_published_need_no_word(files, tmp_path, monkeypatch):
    monkeypatch.setitem(COUNTS, "clapnq", ("Wikipedia", 208, 2))
    pack(tmp_path, *PASSAGES)
    passages = ikat.dataset("mtrag:clapnq").get_corpus_iter(verbose=False)
    assert len(list(passages)) == 2
    assert passages.where(2) == f"{tmp_path / 'mtrag' / 'clapnq.jsonl.zip'}, line 2"


def test_what_is_no_collection_is_refused(files, tmp_path):
    with pytest.raises(DataError, match=rf"download https://\S+/clapnq.jsonl.zip into {tmp_path / 'mtrag'}, or clone https://github.com"):
        ikat.dataset("mtrag:clapnq").get_corpus_iter(verbose=False)
    pack(tmp_path, *PASSAGES, members=("a.jsonl", "b.jsonl"))
    with pytest.raises(DataError, match=r"clapnq.jsonl.zip holds 2 JSON lines files \(a.jsonl, b.jsonl\): pack one, or unpack it"):
        list(ikat.dataset("mtrag:clapnq").get_corpus_iter(verbose=False))
    files("clapnq.jsonl.zip", "version https://git-lfs.github.com/spec/v1")
    with pytest.raises(DataError, match=r"clapnq.jsonl.zip, after line 0: can't be read on \(File is not a zip file\); .* fetch it again"):
        list(ikat.dataset("mtrag:clapnq").get_corpus_iter(verbose=False))


@other_files
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("clapnq/clapnq_questions.jsonl", "{", r"clapnq_questions.jsonl, line 1: not JSON"),
        ("clapnq/clapnq_questions.jsonl", "[]", r"clapnq_questions.jsonl, line 1: expected an object, found \[\]"),
        ("clapnq/clapnq_questions.jsonl", lines({"_id": "a", "text": "|user|: Tea?"}), r'line 1: the id is "a"; it is <conversation>'),
        ("clapnq/clapnq_questions.jsonl", lines({"_id": "a<::>1", "text": "Tea?"}), r'the text is "Tea\?"; it has "\|user\|: " before'),
        ("clapnq/clapnq_questions.jsonl", lines({"_id": "a<::>1", "text": "|user|:  "}), r"the text is "),
        ("clapnq/clapnq_questions.jsonl", lines(*[{"_id": "a<::>1", "text": "|user|: T"}] * 2), r"line 2: the turn a<::>1 occurs twice"),
        ("clapnq/clapnq_rewrite.jsonl", lines({"_id": "c<::>1", "text": "|user|: T"}), r"turn a<::>1 is in one of clapnq_questions.jsonl"),
        ("clapnq/qrels/dev.tsv", "query-id\tcorpus-id\tscore\na<::>1\t1-0-9\tyes\n", r"dev.tsv, line 2: 'a<::>1\\t1-0-9\\tyes' is no"),
        ("clapnq/qrels/dev.tsv", "query-id\tcorpus-id\tscore\n" + "a<::>1\t1\t1\n" * 2, r"a passage of a turn is judged twice"),
    ],
)  # fmt: skip
def test_a_faulty_file_of_a_domain_is_named(files, name, content, message):
    files(name, content)
    data = ikat.dataset("mtrag:clapnq")
    with pytest.raises(DataError, match=message):
        data.get_topics()


WHOLE = [context("1-0-9", "x")]


@other_files
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"documents": WHOLE}, r"evaluations.json: there is no array tasks"),
        ({"documents": WHOLE, "tasks": [task("a<::>1", "T", answer="A")] * 2}, r"task 2: the task a<::>1 occurs twice"),
        ({"documents": WHOLE, "tasks": [task("a<::>1", "T", answer="A", label="MAYBE")]}, r"task 1: its answerability is 'MAYBE'; "),
        ({"documents": WHOLE, "tasks": [task("a<::>2", "T", "A", answer="A")]}, r"task 1: its last message is .*assistant"),
        ({"documents": WHOLE, "tasks": [{"task_id": "a<::>1"}]}, r"task 1: no task of MTRAG \(KeyError: 'input'\)"),
        ({"documents": WHOLE, "tasks": [task("a<::>1", None, answer="A")]}, r"task 1: no task of MTRAG \(ValueError"),
        ({"documents": WHOLE, "tasks": [task("a<::>1", "T", answer="A", contexts=[context("2")])]}, r"the passage 2 of a task is not"),
        ({"documents": [{"document_id": "1"}], "tasks": []}, r'document 1: {"document_id": "1"} is not a passage'),
    ],
)  # fmt: skip
def test_a_faulty_file_of_tasks_is_named(files, content, message):
    files("reference_subset_with_human_evaluations.json", json.dumps(content))
    with pytest.raises(DataError, match=message):
        ikat.dataset("mtrag:mini").get_topics()


def test_a_file_is_found_in_a_clone_and_beside_but_never_that_of_another_collection(tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    qrels = f"{RETRIEVAL}govt/qrels/dev.tsv"
    assert at_hand(qrels) is None
    for name in ("dev.tsv", "qrels/dev.tsv", "cloud/qrels/dev.tsv"):
        path = tmp_path / "mtrag" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        assert at_hand(qrels) is None
    for name in ("govt/qrels/dev.tsv", "retrieval_tasks/govt/qrels/dev.tsv", "mtrag-human/retrieval_tasks/govt/qrels/dev.tsv"):
        path = tmp_path / "mtrag" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        assert at_hand(qrels) == path
        path.unlink()
    with pytest.raises(DataError, match=rf"no file {REFERENCE} in it; download https://\S+ to {tmp_path}/mtrag/reference.jsonl$"):
        ikat.dataset("mtrag:reference").get_topics()


def test_each_file_has_its_address_at_one_commit_and_only_checked_ones_are_fetched(tmp_path, monkeypatch):
    ours = {name.removeprefix("mtrag/"): source for name, source in SOURCES.items() if name.startswith("mtrag/")}
    commits = {source.url.removesuffix(path).rsplit("/", 2)[-2] for path, source in ours.items()}
    assert [len(commit) for commit in commits] == [40]
    assert sorted(path for path, source in ours.items() if not source.digest) == [
        *(f"corpora/passage_level/{domain}.jsonl.zip" for domain in ("clapnq", "cloud", "fiqa", "govt")),
        "mtrag-human/generation_tasks/reference.jsonl",
    ]
    monkeypatch.delenv("IKAT_DATA", raising=False)
    with pytest.raises(DataError, match="reference.jsonl isn't downloaded, as no checksum of"):
        ikat.dataset("mtrag:reference").get_topics()


def test_the_datasets_are_known_by_name():
    names = ["mini", "reference", "clapnq", "cloud", "fiqa", "govt"]
    assert [name for name in full_names() if name.startswith("mtrag:")] == [f"mtrag:{name}" for name in names]
    for name in names:
        data = IkatProvider().get_dataset(f"mtrag:{name}")
        assert repr(data) == repr(ikat.dataset(f"mtrag:{name}")) == f"ikat.dataset('mtrag:{name}')"
        assert (data.year, data.info_url()) == (None, "https://github.com/IBM/mt-rag-benchmark")
        assert 40 < len(data.summary) < 140
        with pytest.raises(UsageError, match=r"has no topics 'questions'; there are get_topics\(\) and get_topics\('manual'\)"):
            data.get_topics("questions")
    assert IkatProvider().get_dataset("mtrag:mini").name == "mtrag:mini"
    with pytest.raises(UsageError, match="no dataset 'mtrag:wiki'; there are .*mtrag:mini"):
        ikat.dataset("mtrag:wiki")


@other_files
@pytest.mark.filterwarnings("ignore:1 of 3 turns have no passage")
def test_the_command_line_indexes_runs_and_evaluates_mini(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        found = CliRunner().invoke(main, words)
        assert found.exit_code == 0, found.output
        return found.output

    assert "mtrag:mini\n" in call("datasets")
    assert "mini.index: 2 passages" in call("index", "mtrag:mini", "mini.index")
    mini = ("--dataset", "mtrag:mini")
    call("run", "raw", *mini, "--index", "mini.index", "--out", "runs")
    # `Dogs?` finds the one of its two passages that has the word, `Tea?` its only one, and the third turn isn't judged
    assert ["raw", ".7500"] in [line.split() for line in call("evaluate", "runs/raw", *mini, "--measures", "R@5").splitlines()]


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and remembers what was asked of it."""

    def do_GET(self):  # noqa: N802 - the name is http.server's
        self.server.asked.append(self.path.rpartition("/")[2])
        super().do_GET()

    def log_message(self, *args):
        pass


def test_mini_is_fetched_once_with_its_checksums(files, tmp_path, home, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "mtrag")))
    server.asked = []
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    wanted = [SUBSET, *(f"{RETRIEVAL}{domain}/{domain}_rewrite.jsonl" for domain in COUNTS)]
    for name in wanted:
        path = at_hand(name)
        url = f"http://127.0.0.1:{server.server_port}/{path.relative_to(tmp_path / 'mtrag')}"
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        monkeypatch.setitem(SOURCES, name, Source(url, f"sha256:{digest}", path.stat().st_size))
    monkeypatch.delenv("IKAT_DATA", raising=False)
    assert ikat.dataset("mtrag:mini").get_topics("manual")["qresolved"].tolist() == ["Is there tea?", "And that?", "Dogs?"]
    assert all((home / name).is_file() for name in wanted)
    assert len(ikat.dataset("mtrag:mini").get_topics()) == 3
    assert sorted(server.asked) == sorted(name.rpartition("/")[2] for name in wanted)
    (home / wanted[0]).unlink()
    monkeypatch.setitem(SOURCES, wanted[0], Source(SOURCES[wanted[0]].url, f"sha256:{'0' * 64}"))
    with pytest.raises(
        DataError, match=rf"is not the expected file: sha256 .*; or put {wanted[0]} into a folder yourself and set IKAT_DATA"
    ):
        ikat.dataset("mtrag:mini").get_topics()
    server.shutdown()
    server.server_close()
