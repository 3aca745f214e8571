"""Exact search of vectors: what a plain product in 64 bits gives, whatever the blocks, the other queries and the device."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyterrier_ikat.retrieve import dense_search
from pyterrier_ikat.retrieve.dense_search import copy_to, find_device, load_on, search_vectors

TORCH = "cpu:0"
"""The way of a GPU, on the CPU."""


def by_definition(vectors, query, depth):
    scores = (vectors.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    rows = sorted(range(len(vectors)), key=lambda row: (-scores[row], -row))[:depth]
    return rows, scores[rows].tolist()


def search(vectors, queries, depth, **options):
    longest = float(np.linalg.norm(vectors.astype(np.float64), axis=1).max())
    return [(rows.tolist(), scores.tolist()) for rows, scores in search_vectors(vectors, queries, depth, longest=longest, **options)]


def drawn(seed, vectors, queries, size, values):
    """Vectors of few different values tie often."""
    draw = np.random.default_rng(seed)
    return [(draw.integers(-values, values + 1, (count, size)) / values).astype(np.float32) for count in (vectors, queries)]


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    vectors=st.integers(1, 60),
    queries=st.integers(1, 5),
    size=st.integers(1, 12),
    depth=st.integers(1, 70),
    values=st.sampled_from([1, 3, 1000]),
    block=st.integers(1, 20),
    crowd=st.sampled_from([1, 4]),
    device=st.sampled_from(["cpu", TORCH]),
)
def test_it_equals_a_plain_matrix_product_with_ties_by_the_greatest_row(seed, vectors, queries, size, depth, values, block, crowd, device):
    held, asked = drawn(seed, vectors, queries, size, values)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dense_search, "BLOCK", block)
        patched.setattr(dense_search, "DEVICE_BLOCK", 2 * block)
        patched.setattr(dense_search, "CROWD", crowd)
        assert search(held, asked, depth, device=device) == [by_definition(held, query, depth) for query in asked]


@pytest.mark.parametrize("device", ["cpu", TORCH])
def test_near_ties_that_32_bits_confuse_are_told_apart(device):
    draw = np.random.default_rng(1)
    one = draw.standard_normal(384).astype(np.float32)
    held = np.tile(one, (3000, 1))
    held[np.arange(3000), draw.integers(0, 384, 3000)] *= np.float32(1 + 2**-20)
    asked = draw.standard_normal((40, 384)).astype(np.float32)
    assert search(held, asked, 100, device=device) == [by_definition(held, query, 100) for query in asked]


def test_a_query_finds_the_same_alone_and_among_others_and_on_either_device():
    draw = np.random.default_rng(2)
    held, asked = draw.standard_normal((20_000, 64), dtype=np.float32), draw.standard_normal((65, 64), dtype=np.float32)
    together = search(held, asked, 200)
    assert [search(held, query[None], 200)[0] for query in asked] == together
    assert search(held, asked, 200, device=TORCH) == together
    assert search(held, asked, 200, device=TORCH, loaded=torch.from_numpy(held)) == together


def test_a_gpu_is_taken_where_there_is_one_and_holds_what_fits(monkeypatch):
    assert find_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == "cuda"
    vectors = np.ones((3, 2), dtype=np.float32)
    assert load_on(vectors, "cpu") is None
    assert load_on(vectors, TORCH) is None
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (47, 1000))
    assert load_on(vectors, "cuda") is None


def test_vectors_are_copied_to_a_device_block_by_block(monkeypatch):
    monkeypatch.setattr(dense_search, "DEVICE_BLOCK", 3)
    vectors = np.random.default_rng(3).standard_normal((10, 4), dtype=np.float32)
    np.testing.assert_array_equal(copy_to(vectors, TORCH).numpy(), vectors)


def test_torchs_shorter_products_are_not_used_and_stay_as_they_were(monkeypatch):
    used = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", used.append)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    search(np.ones((3, 2), dtype=np.float32), np.ones((1, 2), dtype=np.float32), 2, device=TORCH)
    assert used == ["highest", "medium"]
