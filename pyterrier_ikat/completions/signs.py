"""Signs that other scripts write otherwise: digits, brackets, separators, quotation marks."""

import unicodedata

QUOTES = "\"'`“”„‘’‚«»‹›「」『』"
"""Quotation marks that models put around their answers."""

# Chinese, Japanese and Arabic punctuation around numbers, as models write it in lists
# (deepset-ai/haystack#12837, modelscope/evalscope#1590).
_PUNCTUATION = {
    "［": "[", "］": "]", "【": "[", "】": "]", "〔": "[", "〕": "]",
    "（": "(", "）": ")", "｛": "{", "｝": "}",
    "，": ",", "、": ",", "،": ",", "；": ";", "؛": ";", "：": ":", "＃": "#",
}  # fmt: skip


def plain_signs(text: str) -> str:
    """Replace the digits and brackets of all scripts by those of ASCII.

    A circled number gets a blank on both sides.

    Example:
        >>> plain_signs("［１］"), plain_signs("[١، ٥]"), plain_signs("[१]"), plain_signs("x²")
        ('[1]', '[1, 5]', '[1]', 'x²')
        >>> plain_signs("①⑤")
        ' 1  5 '
    """
    if text.isascii():
        return text
    return "".join(_plain(character) for character in text)


def _plain(character: str) -> str:
    if character.isascii():
        return character
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    if unicodedata.decomposition(character).startswith("<circle>"):
        number = unicodedata.normalize("NFKC", character)
        if number.isdecimal():
            return f" {number} "
    return _PUNCTUATION.get(character, character)
