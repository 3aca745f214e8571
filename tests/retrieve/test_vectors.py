"""The search among vectors in a folder: depths, ties, blocks, devices and rounding."""

import numpy as np
import pytest

from pyterrier_ikat.retrieve import vectors as vectors_module
from pyterrier_ikat.retrieve.vectors import Vectors


def vectors_in(folder, vectors, docnos):
    folder.mkdir(exist_ok=True)
    (folder / "vecs.f4").write_bytes(vectors.astype("<f4").tobytes())
    (folder / "docnos.txt").write_text("".join(f"{docno}\n" for docno in docnos))
    return Vectors(folder, vectors.shape[1])


@pytest.mark.parametrize(
    ("depth", "docnos", "scores"),
    [
        (1, ["c"], [4]),
        (2, ["c", "d"], [4, 2]),
        (3, ["c", "d", "a"], [4, 2, 2]),
        (4, ["c", "d", "a", "b"], [4, 2, 2, -1]),
        (9, ["c", "d", "a", "b"], [4, 2, 2, -1]),
    ],
)
def test_the_depth_is_a_limit_and_negative_products_count(tmp_path, depth, docnos, scores):
    vectors = np.array([[2, 1], [-1, 0], [4, 9], [2, 7]])
    index = vectors_in(tmp_path / "v", vectors, "abcd")
    [found] = index.rankings(np.array([[1, 0]], dtype=np.float32), depth)
    assert found.docnos == docnos
    assert found.scores.tolist() == scores


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("QUERIES_AT_ONCE", 1),
        ("QUERIES_AT_ONCE", 4),
        ("SCORES_AT_ONCE", {"cpu": 1}),
        ("SCORES_AT_ONCE", {"cpu": 5000}),
        ("ROWS_AT_ONCE", 1),
        ("ROWS_AT_ONCE", 7),
        ("SAMPLED_VECTORS", 200),
        ("SAMPLED_VECTORS", 999),
    ],
)
def test_sizes_of_blocks_change_no_ranking(tmp_path, monkeypatch, name, value):
    draw = np.random.default_rng(5)
    vectors = draw.normal(size=(1003, 6)).astype(np.float32)
    vectors[::11] = vectors[3]
    docnos = [f"d{number:04}" for number in draw.permutation(1003)]
    queries = draw.normal(size=(9, 6)).astype(np.float32)
    monkeypatch.setattr(vectors_module, name, value)
    found = vectors_in(tmp_path / "v", vectors, docnos).rankings(queries, 20)
    assert len(found) == 9
    for query, ranking in zip(queries, found, strict=True):
        products = (vectors.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
        pairs = sorted(zip(products.tolist(), docnos, strict=True), reverse=True)[:20]
        assert ranking.docnos == [docno for _, docno in pairs]
        assert ranking.scores.tolist() == pytest.approx([score for score, _ in pairs], rel=1e-6)


def test_a_device_is_chosen_by_name(tmp_path):
    index = vectors_in(tmp_path / "v", np.eye(3), "abc")
    query = np.array([[0, 1, 0]], dtype=np.float32)
    for device in ("auto", "cpu"):
        assert index.rankings(query, 1, device)[0].docnos == ["b"]
    with pytest.raises(RuntimeError):
        index.rankings(query, 1, "no-device")
    assert index.rankings(np.empty((0, 3), dtype=np.float32), 1) == []


def test_a_change_in_memory_is_not_one_of_the_file(tmp_path):
    vectors_in(tmp_path / "v", np.eye(3), "abc").vectors[:] = 9
    assert np.fromfile(tmp_path / "v" / "vecs.f4", "<f4").tolist() == np.eye(3).ravel().tolist()


@pytest.mark.parametrize("scale", [1, 1e-12])
def test_the_best_is_found_where_a_product_in_32_bits_loses_it(tmp_path, monkeypatch, scale):
    """The product of a is the scale. Beside 1e8 a sum in 32 bits loses it, in any order."""
    monkeypatch.setattr(vectors_module, "SAMPLED_VECTORS", 1)  # lengths are looked up by blocks
    vectors = np.array([[1e8, 1, 1e8, -1e8, -1e8], [0.5, 0, 0, 0, 0]]) * scale
    index = vectors_in(tmp_path / "v", vectors, "ab")
    [found] = index.rankings(np.ones((1, 5), dtype=np.float32), 1)
    assert (found.docnos, found.scores.tolist()) == (["a"], [np.float32(scale)])


def test_the_best_of_many_vectors_are_those_of_a_plain_product(tmp_path, monkeypatch):
    draw = np.random.default_rng(1)
    vectors = draw.standard_normal((3000, 8)).astype("<f4")
    vectors[1::7] = vectors[0]  # hundreds tie at the cutoff
    docnos = [f"d{number * 7919 % 3000:04}" for number in range(3000)]
    index = vectors_in(tmp_path / "v", vectors, docnos)
    # a thousand vectors at a time
    monkeypatch.setattr(vectors_module, "SCORES_AT_ONCE", {"cpu": 7000})
    queries = np.concatenate([vectors[:1], draw.standard_normal((6, 8)).astype("<f4")])
    for found, query in zip(index.rankings(queries, 50), queries, strict=True):
        products = vectors.astype(np.float64) @ query.astype(np.float64)
        best = sorted(
            range(3000),
            key=lambda number: (round(products[number], 4), docnos[number]),
            reverse=True,
        )[:50]
        assert found.docnos == [docnos[number] for number in best]
        np.testing.assert_allclose(found.scores, products[best], rtol=1e-4)


def exactly(vectors, query, docnos, depth):
    """Scores in 64 bits, rounded to 32 bits, and docnos."""
    products = (
        (vectors.astype(np.float64) * query.astype(np.float64)).sum(axis=1).astype(np.float32)
    )
    return sorted(zip(products.tolist(), docnos, strict=True), reverse=True)[:depth]


@pytest.mark.parametrize(
    ("count", "size", "depth"),
    [(7, 16, 5), (100, 384, 50), (1003, 384, 1000), (5000, 16, 5), (20_000, 24, 30)],
)
@pytest.mark.parametrize("length", [1.0, 40.0])
def test_a_ranking_is_the_same_alone_and_in_any_batch(
    tmp_path, monkeypatch, count, size, depth, length
):
    monkeypatch.setattr(vectors_module, "QUERIES_AT_ONCE", 20)
    draw = np.random.default_rng(count)
    vectors = draw.normal(size=(count, size)).astype(np.float32)
    vectors *= length / np.linalg.norm(vectors, axis=1, keepdims=True)
    copied = draw.integers(0, count, (2, count // 3))
    vectors[copied[0]] = vectors[copied[1]]  # equal vectors go by docno
    docnos = [f"d{number}" for number in draw.permutation(count)]
    index = vectors_in(tmp_path / "i", vectors, docnos)
    queries = draw.normal(size=(33, size)).astype(np.float32)
    together = index.rankings(queries, depth)
    for place in (0, 1, 19, 20, 32):
        for found in (
            index.rankings(queries[place : place + 1], depth)[0],
            index.rankings(queries[place:], depth)[0],
        ):
            assert found.docnos == together[place].docnos
            assert found.scores.tolist() == together[place].scores.tolist()
        expected = exactly(vectors, queries[place], docnos, depth)
        assert together[place].docnos == [docno for _, docno in expected]
        assert together[place].scores.tolist() == [score for score, _ in expected]


def test_what_no_sample_shows_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors_module, "SAMPLED_VECTORS", 400)
    draw = np.random.default_rng(4)
    vectors = draw.normal(size=(4000, 8)).astype(np.float32)
    vectors[::10] = 9 * np.eye(8)[0]  # the sample has these alone: 400 of the 4000, all the same
    docnos = [f"d{number:04}" for number in range(4000)]
    index = vectors_in(tmp_path / "i", vectors, docnos)
    queries = np.stack([np.eye(8)[0], -np.eye(8)[0], np.eye(8)[1]]).astype(np.float32)
    for query, found in zip(queries, index.rankings(queries, 5), strict=True):
        assert list(zip(found.scores.tolist(), found.docnos, strict=True)) == exactly(
            vectors, query, docnos, 5
        )
