import pytest

from pyterrier_ikat.submit.checks import check_length, check_tokens, count_tokens
from pyterrier_ikat.submit.problem import Place


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("Two words", 2),
        ("I don't know.", 5),  # I do n't know .
        ("It’s $3.50, isn't it?", 11),  # It ’s $ 3 . 50 , is n't it ? (spaCy keeps 3.50 whole)
        ("a state-of-the-art phone", 9),
    ],
)
def test_tokens_are_words_parts_of_contractions_and_marks(text, tokens):
    assert count_tokens(text) == tokens


def test_the_limit_in_words_is_an_error_in_tokens_a_warning():
    texts = {"w " * 251: "error", "w, " * 126: "warning", "w " * 249 + "w.": "warning", "w, " * 125: None, "w " * 250: None}
    for text, severity in texts.items():
        place = Place()
        check_length(place, [text])
        check_tokens(place, text)
        assert [problem.severity for problem in place.found] == ([severity] if severity else [])


def test_words_are_counted_after_nfkc_over_all_texts():
    place = Place()
    check_length(place, ["w\u00a0" * 200, "w\u3000" * 51], " in all")
    assert "251 words, 250 are allowed in all" in place.found[0].message
