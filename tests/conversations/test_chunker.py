import builtins
import re
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.conversations import passages
from pyterrier_ikat.conversations.passages import chunk_documents
from pyterrier_ikat.errors import DataError, UsageError


def by_full_stop(text):
    return re.findall(r"[^.]+\.?", text)


def chunks(text, sentences=by_full_stop, **options):
    return list(chunk_documents([{"docno": "d", "text": text, "url": "u"}], sentences, **options))


def numbered(count):
    return " ".join(f"s{number}." for number in range(count))


@pytest.mark.parametrize(
    ("sentences", "passages"),
    [(0, []), (1, [(0, 1)]), (10, [(0, 10)]), (11, [(0, 10), (5, 11)]), (15, [(0, 10), (5, 15)]), (16, [(0, 10), (5, 15), (10, 16)])],
)
def test_ten_sentences_every_five_until_the_end_is_reached(sentences, passages):
    found = chunks(numbered(sentences))
    assert [passage["text"] for passage in found] == [" ".join(f"s{n}." for n in range(*span)) for span in passages]
    assert [passage["docno"] for passage in found] == [f"d:{place}" for place in range(len(passages))]
    assert all(passage["url"] == "u" for passage in found)


def test_a_document_is_cut_at_10_000_characters():
    assert sum(len(passage["text"]) for passage in chunks("x" * 9_999 + "yz.")) == 10_000
    assert chunks("x" * 9_999 + "yz.")[0]["text"].endswith("xy")


def test_blank_documents_and_blank_sentences_make_no_passage():
    assert chunks(" \n ") == []
    assert [passage["text"] for passage in chunks("a.b", lambda _: ["a ", " ", "\nb"])] == ["a b"]


@given(st.integers(0, 60), st.integers(1, 12), st.data())
def test_every_sentence_is_in_a_passage_and_no_passage_lies_within_another(count, window, data):
    stride = data.draw(st.integers(1, window))
    spans = [set(passage["text"].split()) for passage in chunks(numbered(count), window=window, stride=stride)]
    assert set().union(*spans) == {f"s{number}." for number in range(count)}
    assert not any(a < b or a == b for i, a in enumerate(spans) for j, b in enumerate(spans) if i != j)


@pytest.mark.parametrize("options", [{"stride": 0}, {"stride": 11}, {"window": 0}])
def test_windows_that_lose_sentences_are_refused(options):
    with pytest.raises(UsageError, match="1 <= stride <= window"):
        chunks("a.", **options)


@pytest.mark.parametrize("document", [{"text": "a."}, {"docno": "d"}, {"docno": "a b", "text": "a."}, {"docno": 7, "text": "a."}])
def test_a_document_without_name_or_text_is_named(document):
    with pytest.raises(DataError, match="document 2 has the docno"):
        list(chunk_documents([{"docno": "d", "text": "a."}, document], by_full_stop))


@pytest.fixture
def no_senter_yet():
    passages._spacy_sentences.cache_clear()
    yield
    passages._spacy_sentences.cache_clear()


def test_without_spacy_the_install_line_is_named(monkeypatch, no_senter_yet):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "spacy":
            raise ModuleNotFoundError("No module named 'spacy'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UsageError, match=r"No module named 'spacy'.*pip install 'pyterrier_ikat\[chunk\]'.*en_core_web_sm, or give"):
        chunk_documents([])


def test_spacys_senter_is_what_cuts_when_nothing_else_is_given(monkeypatch, no_senter_yet):
    enabled = []

    class Pipeline:
        enable_pipe = staticmethod(enabled.append)

        def __call__(self, text):
            return SimpleNamespace(sents=[SimpleNamespace(text=part) for part in by_full_stop(text)])

    def load(name, exclude):
        assert name == "en_core_web_sm"
        assert "senter" not in exclude
        return Pipeline()

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))
    found = chunk_documents([{"docno": "d", "text": "One. Two."}])
    assert [passage["text"] for passage in found] == ["One. Two."]
    assert enabled == ["senter"]
