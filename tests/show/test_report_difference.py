from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.show.report.turns import mark_new_words

TEXT = st.text(alphabet="ab \n", max_size=30)


def test_words_that_the_baseline_lacks_are_marked_case_aside():
    assert mark_new_words("Which easy walk, with a dog?", "which walk, with a cat?") == [
        ("Which ", False),
        ("easy ", True),
        ("walk, with a ", False),
        ("dog?", True),
    ]


def test_without_a_baseline_nothing_is_marked():
    assert mark_new_words(" a b ", None) == [("a b", False)]


def test_order_counts():
    assert [text for text, new in mark_new_words("b a", "a b") if new] in (["b "], ["a"])


@given(TEXT, TEXT)
def test_the_pieces_are_the_text_and_neighbours_differ(text, baseline):
    pieces = mark_new_words(text, baseline)
    assert "".join(piece for piece, _ in pieces) == text.strip()
    assert all(one[1] != other[1] for one, other in zip(pieces, pieces[1:], strict=False))


@given(TEXT.filter(str.strip))
def test_a_text_differs_nowhere_from_itself(text):
    assert [new for _, new in mark_new_words(text, text)] == [False]


@given(TEXT.filter(str.strip))
def test_a_text_differs_everywhere_from_nothing(text):
    assert [new for _, new in mark_new_words(text, "")] == [True]
