"""Values that a cache lacks are computed in parts, and kept."""

import pytest

from pyterrier_ikat.store import cache as cache_module
from pyterrier_ikat.store.cache import Cache, compute_missing, digest

KEYS = [digest(str(number)) for number in range(10)]


class Doubles:
    """Doubles numbers, remembers the parts, and fails at a number."""

    def __init__(self, fails_at=None):
        self.parts = []
        self.fails_at = fails_at

    def __call__(self, numbers):
        self.parts.append(list(numbers))
        for number in numbers:
            if number == self.fails_at:
                raise ZeroDivisionError
            yield 2 * number


def doubled(cache, numbers, compute, at_once=2, **coding):
    coding = {
        "encode": lambda value: str(value).encode(),
        "decode": lambda content: int(content),
    } | coding
    inputs = {KEYS[number]: number for number in numbers}
    values = compute_missing(
        cache, inputs, compute, **coding, at_once=at_once, label="doubling", unit="number"
    )
    return {KEYS.index(key): value for key, value in values.items()}


def test_missing_values_are_computed_in_parts_and_kept():
    cache = Cache()
    doubles = Doubles()
    assert doubled(cache, [3, 1, 4, 2, 5], doubles) == {3: 6, 1: 2, 4: 8, 2: 4, 5: 10}
    assert doubles.parts == [[3, 1], [4, 2], [5]]
    assert doubled(cache, [6, 1, 5], doubles) == {6: 12, 1: 2, 5: 10}
    assert doubles.parts[3:] == [[6]]
    assert doubled(cache, [], doubles) == {}
    assert cache.get([KEYS[3]]) == {KEYS[3]: b"6"}


def test_a_value_without_bytes_is_given_and_not_kept():
    cache = Cache()
    doubles = Doubles()
    encode = lambda value: None if value == 2 else str(value).encode()  # noqa: E731
    for _ in range(2):
        assert doubled(cache, [1, 2], doubles, encode=encode) == {1: 2, 2: 4}
    assert doubles.parts == [[1, 2], [1]]


def test_bytes_that_give_no_value_are_computed_again():
    cache = Cache()
    doubles = Doubles()
    cache.put({KEYS[1]: b"old", KEYS[2]: b"0"})
    decode = lambda content: None if content == b"old" else int(content)  # noqa: E731
    assert doubled(cache, [1, 2], doubles, decode=decode) == {1: 2, 2: 0}
    assert doubles.parts == [[1]]
    assert cache.get(KEYS[1:3]) == {KEYS[1]: b"2", KEYS[2]: b"0"}


def test_parts_before_a_failure_are_kept():
    cache = Cache()
    doubles = Doubles(fails_at=4)
    with pytest.raises(ZeroDivisionError):
        doubled(cache, [1, 2, 3, 4, 5], doubles)
    assert set(cache.get(KEYS)) == {KEYS[1], KEYS[2]}


@pytest.mark.parametrize("values", [[1], [1, 2, 3]])
def test_as_many_values_as_inputs_are_computed(values):
    with pytest.raises(ValueError, match="zip"):
        doubled(Cache(), [1, 2], lambda numbers: values)


def test_a_value_without_a_byte_is_kept():
    cache = Cache()
    doubles = Doubles()
    for _ in range(2):
        coding = {"encode": lambda value: b"", "decode": lambda content: 2}
        assert doubled(cache, [1], doubles, **coding) == {1: 2}
    assert doubles.parts == [[1]]


class Bar:
    """A progress bar that keeps what it was made with and told."""

    def __init__(self, **made_with):
        self.made_with = made_with
        self.updates = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def update(self, count):
        self.updates.append(count)


@pytest.mark.parametrize(
    ("numbers", "at_once", "disabled", "updates"),
    [([1, 2, 3], 2, False, [2, 1]), ([1, 2, 3], 3, True, [3]), ([1, 2, 3, 9], 3, True, [3])],
)
def test_progress_counts_what_is_computed(monkeypatch, numbers, at_once, disabled, updates):
    bars = []

    def bar_of(**made_with):
        bars.append(Bar(**made_with))
        return bars[-1]

    monkeypatch.setattr(cache_module, "bar_of", bar_of)
    cache = Cache()
    cache.put({KEYS[9]: b"18"})
    doubled(cache, numbers, Doubles(), at_once)
    [bar] = bars
    expected = {"total": 3, "desc": "doubling", "unit": "number", "disable": disabled}
    assert (bar.made_with, bar.updates) == (expected, updates)
