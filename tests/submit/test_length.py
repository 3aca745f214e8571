from pyterrier_ikat.submit.checks import check_length
from pyterrier_ikat.submit.problem import Place


def test_words_are_counted_after_nfkc_over_all_texts():
    place = Place()
    check_length(place, ["w\u00a0" * 200, "w\u3000" * 51], " in all")
    assert "251 words, 250 are allowed in all" in place.found[0].message
    check_length(place, ["w " * 250])
    assert len(place.found) == 1
