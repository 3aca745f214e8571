"""Fields of passages, sources of data files, judgements and frames: whole results."""

import errno
import json
import socket
import warnings
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
import requests

from pyterrier_ikat.conversations import download
from pyterrier_ikat.conversations.download import (
    SOURCES,
    OtherDataWarning,
    Source,
    at_hand,
    data_file,
    data_folder,
    is_published,
)
from pyterrier_ikat.conversations.frame import (
    NoResultWarning,
    column,
    conversation,
    each_turn_once,
    frame_of_rows,
    known_statements,
    numbered,
    report_turns_without_result,
    starts_of_runs,
    turns_of,
    well_formed,
    with_columns,
    with_query,
    with_text_ids,
    without_passages,
    without_result_warnings,
)
from pyterrier_ikat.conversations.passage_fields import (
    CollectionWarning,
    Unread,
    joined,
    read_fields,
)
from pyterrier_ikat.conversations.public_outputs import Output, origin_of, read_parts
from pyterrier_ikat.conversations.qrels import (
    check_qrels,
    judge_of,
    judgements_in,
    merge_qrels,
    note_of,
    read_qrels,
    write_judge,
    write_qrels,
)
from pyterrier_ikat.conversations.topics import (
    Conversation,
    TopicTurn,
    answers_frame,
    provenance_qrels,
    ptkb_qrels,
    topics_frame,
    with_automatic,
)
from pyterrier_ikat.errors import DataError, UsageError

FIELDS = [
    # the item, its docno, text and address, and the names that nothing reads
    ({"docno": "d", "id": "e", "text": "a"}, ("d", "a", ""), ["id"]),
    ({"docno": None, "id": "e", "text": "a"}, ("e", "a", ""), []),
    ({"_id": 7, "text": "a", "url": "u"}, ("7", "a", "u"), []),
    ({"id": "d", "contents": "a", "text": "b"}, ("d", "a", ""), ["text"]),
    ({"id": "d", "contents": "a", "text": "a"}, ("d", "a", ""), []),
    ({"id": "d", "contents": None, "text": "b"}, ("d", "b", ""), []),
    ({"doc_id": "d", "passage_id": 4, "passage_text": "a"}, ("d:4", "a", ""), []),
    ({"doc_id": "d", "passage_id": 0, "text": "a"}, ("d:0", "a", ""), []),
    ({"doc_id": "d", "text": "a"}, ("d", "a", ""), []),
    ({"pid": "p", "docid": "d", "passage": "a", "spans": "(1)"}, ("p", "a", ""), []),
    ({"docid": "d", "segment": "a", "start_char": 1, "end_char": 2}, ("d", "a", ""), []),
    ({"id": "d", "title": " T ", "headings": "H", "body": " a "}, ("d", "T H a", ""), []),
    ({"id": "d", "title": "T", "text": "T\na"}, ("d", "T\na", ""), []),
    ({"id": "d", "title": None, "headings": "", "text": "a"}, ("d", "a", ""), []),
    ({"id": "d", "text": "a", "url": None, "metadata": {"x": 1}}, ("d", "a", ""), []),
    ({"id": "d", "text": "a", "x": [], "y": {}, "z": "", "w": None}, ("d", "a", ""), []),
    ({"id": "d", "text": "a", "x": 0, "y": "d", "z": ["a"]}, ("d", "a", ""), ["x", "z"]),
    ({"id": 7, "text": "a", "x": 7, "y": 1.5}, ("7", "a", ""), ["y"]),
    ({"id": np.int64(7), "text": "a"}, ("7", "a", ""), []),
    ({"headings": "H", "text": "a", "title": "T", "id": "d"}, ("d", "T H a", ""), []),
    ({"id": "d", "body": "b", "text": "a"}, ("d", "a", ""), ["body"]),
    ({"id": "d", "title": 5, "text": "a"}, ("d", "a", ""), ["title"]),
    (
        {"id": "d", "text": "tea for two", "x": "tea", "y": "u", "url": "u"},
        ("d", "tea for two", "u"),
        ["x"],
    ),
    ({"id": "d", "title": "T", "text": "\n T\na"}, ("d", "\n T\na", ""), []),
    (MappingProxyType({"id": "d", "text": "a"}), ("d", "a", ""), []),
]


@pytest.mark.parametrize(("item", "passage", "unread"), FIELDS, ids=range(len(FIELDS)))
def test_a_passage_is_read_from_any_known_fields(item, passage, unread):
    docno, text, url = passage
    assert read_fields(item) == ({"docno": docno, "text": text, "url": url}, unread)


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ("x", "no passage id in the fields none"),
        ({}, "no passage id in the fields none"),
        ({"text": "a"}, "no passage id in the fields text$"),
        ({"id": "a b", "text": "a"}, "'a b' is no text without white space"),
        ({"id": "", "text": "a"}, "'' is no text"),
        ({"id": True, "text": "a"}, "True is no text"),
        ({"id": 1.5, "text": "a"}, "1.5 is no text"),
        ({"id": "a\0b", "text": "a"}, "is no text"),
        ({"id": "a\ud800", "text": "a"}, "is no text"),
        ({"doc_id": "d", "passage_text": "a"}, "no passage id in the fields doc_id, passage_text$"),
        ({"doc_id": "d", "passage_id": "", "passage_text": "a"}, "no passage id"),
        ({"id": "d"}, "passage d has no text in the fields id"),
        ({"id": "d", "text": None}, "passage d has no text in the fields id, text"),
        ({"id": "d", "text": 5}, "passage d has no text"),
        ({"id": "d", "text": "a", "url": 5}, "the url of passage d is no text"),
        ({"id": "d", "text": "a", "url": 0}, "the url of passage d is no text"),
    ],
)
def test_what_is_no_passage_is_refused(item, part):
    with pytest.raises(ValueError, match=part):
        read_fields(item)


def test_a_text_of_a_frame_may_be_missing():
    missing = {"id": "d", "text": float("nan"), "url": float("nan")}
    assert read_fields(missing, may_be_empty=True)[0] == {"docno": "d", "text": "", "url": ""}
    with pytest.raises(ValueError, match="passage d has no text"):
        read_fields({"id": "d"}, may_be_empty=True)


def test_a_title_is_not_repeated():
    assert joined(["Mint", " "], "A herb.") == "Mint A herb."
    assert joined([" Mint ", "Sage"], "Mint \n Sage\nA herb.") == "Mint \n Sage\nA herb."
    assert joined(["Mint", "Sage"], "Mint\nA herb.") == "Mint Sage Mint\nA herb."
    assert joined(["Mint"], " A herb. ") == "Mint A herb."
    assert joined(["Mint"], "") == "Mint"


def test_each_unread_field_is_told_once():
    unread = Unread("a.jsonl")
    found = [
        ("line 1", []),
        ("line 2", ["x"]),
        ("line 3", ["x", "y", "z"]),
        ("line 4", ["z"]),
        ("line 5", ["w"]),
        ("line 6", ["x", "z"]),
    ]
    with pytest.warns(CollectionWarning) as told:
        [unread.tell(line, names) for line, names in found]
    said = [str(warning.message).partition(";")[0] for warning in told]
    assert said == [
        "a.jsonl, line 2: nothing reads the field x",
        "a.jsonl, line 3: nothing reads the fields y, z",
        "a.jsonl, line 5: nothing reads the field w",
    ]


def answer_of(status, reason):
    response = requests.Response()
    response.status_code, response.reason = status, reason
    return requests.HTTPError(response=response)


def refused():
    error = OSError(errno.ECONNREFUSED, "Connection refused")
    outer = requests.ConnectionError(RuntimeError("pool"))
    outer.args[0].reason = error
    return outer


def unnamed():
    error = requests.ConnectionError()
    error.__cause__ = socket.gaierror(-2, "Name or service not known")
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (answer_of(404, "Not Found"), "(status 404 Not Found)"),
        (answer_of(503, ""), "(status 503)"),
        (requests.ReadTimeout("x"), "(it doesn't answer in time)"),
        (requests.ConnectTimeout("x"), "(it doesn't answer in time)"),
        (requests.exceptions.SSLError("self-signed"), "(the certificate isn't accepted: self-sig"),
        (refused(), "(no connection: Connection refused)"),
        (unnamed(), "(no connection: Name or service not known)"),
        (requests.ConnectionError(), "(no connection: ConnectionError)"),
        (requests.TooManyRedirects("30"), "(TooManyRedirects: 30)"),
    ],
    ids=range(9),
)
def test_a_failed_download_says_why(error, said, monkeypatch, capsys):
    def get(url, timeout):
        assert timeout == (15, 60)
        raise error

    monkeypatch.setattr(requests, "get", get)
    name = "memory/locomo10.json"
    with pytest.raises(DataError) as raised:
        data_file(name)
    text = str(raised.value)
    assert text.startswith(f"{SOURCES[name].url} can't be fetched {said}")
    assert text.endswith(f"put {name} into a folder yourself and set IKAT_DATA to that folder")
    assert f"downloading {SOURCES[name].url} (licence: " in capsys.readouterr().err


FILES = {
    "a/b/c/d.txt": Source("http://x/d", "git:12e7e3aabd45cbeca21a3d4a1fa5de2dc5ed7b9d", "MIT"),
    "a/e/d.txt": Source("http://x/e", "sha256:" + "0" * 64, "MIT"),
    "a/b/only.txt": Source("http://x/o", "", "MIT"),
    "memory/m.txt": Source("http://x/m", "md5:0cc175b9c0f1b6a831c399e269772661", "MIT"),
    "coming.txt": Source("", "", "MIT"),
}


@pytest.fixture
def files(monkeypatch, tmp_path):
    """The folder of the user, with other files in the table."""
    monkeypatch.setattr(download, "SOURCES", FILES)
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("IKAT_DATA", str(folder))
    download._check.cache_clear()
    yield folder
    download._check.cache_clear()


def put(path, text="a"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_is_looked_for_in_folders_from_the_nearest(files, home, monkeypatch):
    name = "a/b/c/d.txt"
    assert at_hand(name) is None
    last = put(home / "a/b/c/d.txt")
    assert at_hand(name) == last
    beside = put(files.parent / "a/b/c/d.txt")
    assert at_hand(name) == beside
    short = put(files / "a/c/d.txt")
    assert at_hand(name) == short
    own = put(files / name)
    assert at_hand(name) == own
    put(files / "a/d.txt")  # of two files that end so
    own.unlink()
    short.unlink()
    beside.unlink()
    last.unlink()
    assert at_hand(name) is None
    assert at_hand("a/b/only.txt") is None
    only = put(files / "a/only.txt")
    assert at_hand("a/b/only.txt") == only
    put(files.parent / "coming.txt")
    assert at_hand("coming.txt") is None
    monkeypatch.delenv("IKAT_DATA")
    assert data_folder() == home
    put(files.parent / "a/b/c/d.txt")
    assert at_hand(name) is None


def test_a_file_is_the_published_one_by_its_checksum(files):
    put(files / "memory/m.txt")
    assert is_published("memory/m.txt")
    put(files / "a/b/only.txt")
    assert not is_published("a/b/only.txt")
    blob = put(files / "a/b/c/d.txt", "what is up, doc?")
    with pytest.warns(OtherDataWarning) as told:
        assert not is_published("a/b/c/d.txt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_published("a/b/c/d.txt")
        assert data_file("a/b/c/d.txt") == blob
    assert len(told) == 1
    message = str(told[0].message)
    assert "git:bd9dbf5aae1a3862dd1526723246b20206e5fc37 instead of git:12e7" in message
    assert "download http://x/d in its place" in message


def test_a_missing_file_is_named_with_what_to_do(files):
    with pytest.raises(UsageError, match="no data file 'x'; there are a/b/c/d.txt, a/e/d.txt"):
        data_file("x")
    with pytest.raises(DataError, match="coming.txt isn't published yet"):
        data_file("coming.txt")
    with pytest.raises(DataError, match="there is no file a/e/d.txt in it; download http://x/e"):
        data_file("a/e/d.txt")


QRELS = pd.DataFrame({"qid": ["b", "a", "b"], "docno": ["y", "x", "x"], "label": [1, 0, 2]})


def test_judgements_are_merged_written_and_read(tmp_path):
    new = pd.DataFrame({"qid": ["a", "b"], "docno": ["z", "x"], "label": ["4", 3.0]})
    merged = merge_qrels(QRELS, new)
    assert merged.values.tolist() == [["b", "y", 1], ["a", "x", 0], ["b", "x", 2], ["a", "z", 4]]
    assert merge_qrels(QRELS, new, "new")["label"].tolist() == [1, 0, 3, 4]
    with pytest.raises(UsageError, match="rule"):
        merge_qrels(QRELS, new, "mean")
    with pytest.raises(DataError, match="the new qrels hold no judgement"):
        merge_qrels(QRELS, QRELS[:0])
    with pytest.raises(DataError, match="the official qrels have no column label"):
        merge_qrels(QRELS.drop(columns="label"), new)
    path = tmp_path / "q.txt"
    write_qrels(QRELS, path)
    assert path.read_text() == "b 0 y 1\na 0 x 0\nb 0 x 2\n"
    assert read_qrels(path).to_dict("list") == QRELS.to_dict("list")
    assert read_qrels(path)["label"].dtype == np.int64
    assert (note_of(path), judge_of(path)) == ({}, None)
    write_judge(path, "m", "umbrela", filled="yes")
    assert note_of(path) == {"judged_by": "m", "style": "umbrela", "filled": "yes"}
    assert judge_of(path) == "m/umbrela"
    write_judge(path, "m", "one-shot")
    assert judge_of(path) == "m"
    for name in ("qid", "docno"):
        for wrong in ("a b", ""):
            with pytest.raises(DataError, match=f"the {name} '{wrong}' is empty or holds white"):
                write_qrels(QRELS.assign(**{name: ["v", "w", wrong]}), path)


@pytest.mark.parametrize(
    ("qrels", "part"),
    [
        (QRELS.drop(columns=["qid", "label"]), "mine have no column qid, label: give a frame"),
        (QRELS[:0], "mine hold no judgement"),
        (QRELS.assign(label=[1, None, 2]), "mine: turn a, passage x: the label is nan"),
        (QRELS.assign(label=[1, 2, 12345]), "turn b, passage x: the label is 12345"),
        (QRELS.assign(docno="x"), "mine judge turn b, passage x twice"),
        (QRELS.assign(qid=[1, 2, 3]), "mine: the qid 1 is not a text"),
    ],
    ids=range(6),
)
def test_judgements_that_are_none_are_named(qrels, part):
    for check in (judgements_in, check_qrels):
        with pytest.raises(DataError, match=part):
            check(qrels, "mine")


@pytest.mark.parametrize(
    ("given", "part"), [("q.txt", "mine are 'q.txt'"), ([], "mine are a list")]
)
def test_judgements_are_a_frame(given, part):
    with pytest.raises(UsageError, match=part):
        judgements_in(given, "mine")


TEA = TopicTurn(1, "Tea?", "Mint.", "Which tea?", ("2",), ("d2", "d1"), automatic="Tea now?")
NOW = TopicTurn(2, "And now?", "", " ", qid="own", answerability="partial")
LAST = TopicTurn(3, "Bye?", "Bye.", history=({"role": "user", "content": "Hi"},))
CHATS = [Conversation("9", "T", {"1": "a", "2": "b"}, (TEA, NOW, LAST)), Conversation("8")]


def test_the_frames_of_conversations_have_their_fields():
    frame = topics_frame(CHATS, manual=True)
    past = [{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Mint."}]
    assert frame.to_dict("list") == {
        "qid": ["9_1", "own", "9_3"],
        "query": ["Tea?", "And now?", "Bye?"],
        "qutterance": ["Tea?", "And now?", "Bye?"],
        "qhistory": [[], past, [{"role": "user", "content": "Hi"}]],
        "qptkb": [{"1": "a", "2": "b"}] * 3,
        "qconversation": ["9"] * 3,
        "qturn": [1, 2, 3],
        "qresolved": ["Which tea?", "And now?", "Bye?"],
        "qgoldptkb": [["2"], [], []],
    }
    assert topics_frame(CHATS).columns.tolist() == frame.columns.tolist()[:7]
    resolved = CHATS[0].histories(resolved=True)
    assert [message["content"] for message in resolved[1]] == ["Which tea?", "Mint."]
    automatic = with_automatic(topics_frame(CHATS), CHATS)
    assert automatic["query"].tolist() == ["Tea now?", "And now?", "Bye?"]
    assert automatic["qrewrite"].tolist() == automatic["query"].tolist()
    assert automatic["query_0"].tolist() == ["Tea?", "And now?", "Bye?"]
    assert answers_frame(CHATS).to_dict("list") == {
        "qid": ["9_1", "own", "9_3"],
        "gold_answer": ["Mint.", "", "Bye."],
        "gold_answerability": ["", "partial", ""],
    }
    assert answers_frame([Conversation("9", turns=(TEA,))]).columns.tolist() == [
        "qid",
        "gold_answer",
    ]
    assert provenance_qrels(CHATS).values.tolist() == [["9_1", "d2", 1], ["9_1", "d1", 1]]
    assert ptkb_qrels(CHATS).values.tolist()[:3] == [
        ["9_1", "1", 0],
        ["9_1", "2", 1],
        ["own", "1", 0],
    ]
    assert len(ptkb_qrels(CHATS)) == 6


def test_every_turn_of_a_chat_is_a_row():
    chat = [
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "Tea?"},
        {"role": "user", "content": "Now?"},
        {"role": "assistant", "content": "Bye"},
    ]
    memories = [
        {
            "id": "1",
            "statement": "a",
            "until": None,
            "when": "2024-05-02",
            "session": "s",
            "turn": 1,
        }
    ]
    frame = conversation(chat, number="n", every_turn=True, memories=memories)
    assert frame["qid"].tolist() == ["n_1", "n_2"]
    assert frame["qhistory"].map(len).tolist() == [1, 2]
    assert frame["qmemories"].tolist() == [memories] * 2
    assert frame["qptkb"].tolist() == [{"1": "a"}] * 2
    dated = conversation(chat[:3], memories=memories, dated=True)
    assert dated["qptkb"].item() == {"1": "a (said 2024-05-02, s, turn 1)"}
    assert known_statements([{**memories[0], "until": "x"}]) == {}
    with pytest.raises(UsageError, match="message 2 of the conversation is 'x': give"):
        conversation([chat[1], "x"])
    with pytest.raises(UsageError, match="ends with a message of the user"):
        conversation(chat)
    with pytest.raises(UsageError, match="ends with a message of the user"):
        conversation(chat[:1], every_turn=True)


def test_frames_keep_lists_and_their_index():
    frame = frame_of_rows(["a", "b"], iter([([1], 2), ([3, 4], 5)]))
    assert frame.to_dict("list") == {"a": [[1], [3, 4]], "b": [2, 5]}
    assert set(frame.dtypes) == {np.dtype(object)}
    assert frame_of_rows(["a"], []).columns.tolist() == ["a"]
    moved = frame.set_axis([7, 3])
    added = with_columns(moved, c=[[1, 2], {}], a="xy")
    assert added.loc[3].tolist() == ["y", 5, {}]
    assert moved["a"].tolist() == [[1], [3, 4]]
    assert column([[1], [2]], moved.index)[3] == [2]
    asked = pd.DataFrame({"qid": ["a"], "query": ["x"], "query_0": ["y"], "query_2": ["z"]})
    assert with_query(asked, ["w"], qrewrite=["v"]).to_dict("list") == {
        "qid": ["a"],
        "query_0": ["x"],
        "query_1": ["y"],
        "query_2": ["z"],
        "qrewrite": ["v"],
        "query": ["w"],
    }


def test_rows_are_numbered_by_their_turns():
    qids = column(["b", "b", "a", "b", "c", "c"]).to_numpy()
    assert starts_of_runs(qids).tolist() == [0, 2, 3, 4]
    assert numbered(qids).tolist() == [0, 0, 1, 0, 2, 2]
    assert starts_of_runs(qids[:0]).tolist() == numbered(qids[:0]).tolist() == []
    assert turns_of(pd.DataFrame({"qid": ["x", "y", "x"]})).tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="row 2 of the frame has no qid"):
        numbered(column(["a", "a", None, "b"]).to_numpy())
    with pytest.raises(DataError, match="turn b has several rows"):
        each_turn_once(pd.DataFrame({"qid": ["a", "b", "b", "a"]}))
    with pytest.raises(DataError, match="row 1 of the frame has no qid"):
        each_turn_once(pd.DataFrame({"qid": ["a", None]}))
    each_turn_once(pd.DataFrame({"qid": []}))


def test_a_result_frame_is_reduced_to_its_turns():
    results = pd.DataFrame(
        {
            "qid": list("aab"),
            "query": list("xxy"),
            "docno": list("123"),
            "score": [1, 2, 3],
            "qturn": [1, 1, 2],
        }
    )
    assert without_passages(results).values.tolist() == [["a", "x", 1], ["b", "y", 2]]
    turns = results[["qid", "score"]][1:]
    assert without_passages(turns) is turns
    with pytest.raises(DataError, match="turn a has several rows"):
        without_passages(results[["qid", "score"]])


def test_ids_are_texts():
    frame = pd.DataFrame({"qid": pd.Categorical(["a", "b"]), "docno": ["x", "y"]})
    checked = with_text_ids("run", frame)
    assert str(checked["qid"].dtype) == "object"
    assert checked.values.tolist() == [["a", "x"], ["b", "y"]]
    assert with_text_ids("run", frame.assign(docno=[1, 2]), ["qid"])["docno"].tolist() == [1, 2]
    for wrong in (5, None, 1.5):
        with pytest.raises(DataError, match=r'run: the docno .* with frame\["docno"\].astype\(str'):
            with_text_ids("run", frame.assign(docno=["x", wrong]))
    with pytest.raises(DataError, match="run: the qid b'a' is not a text"):
        with_text_ids("run", frame.assign(qid=[b"a", "b"]))
    assert well_formed("a\ud800b") == "a\ufffdb"
    assert well_formed("é") == "é"


def test_turns_without_a_passage_are_told_in_their_order():
    frame = pd.DataFrame({"qid": ["b", "a", "c"]})
    with pytest.warns(NoResultWarning, match=r"^2 of 3 turns found no passage: b, c; counted 0"):
        report_turns_without_result(frame, [0, 3, 0])
    exploded = pd.DataFrame({"qid": ["a::0", "a::1", "b::0"], "qid_0": ["a", "a", "b"]})
    with pytest.warns(NoResultWarning, match=r"^1 of 2 turns found no passage: b;"):
        report_turns_without_result(exploded, [0, 1, 0])
    report_turns_without_result(frame, [1, 1, 1])
    with without_result_warnings():
        report_turns_without_result(frame, [0, 0, 0])
    with pytest.warns(NoResultWarning):
        report_turns_without_result(frame, [0, 0, 0])


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
