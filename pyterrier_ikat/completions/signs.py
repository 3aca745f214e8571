"""Signs that other scripts write otherwise: digits, brackets, separators, quotation marks. Pure functions on texts."""

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
    """The text with the digits and brackets of all scripts as those of ASCII. A circled number stands by itself.

    Example:
        >>> plain_signs("［１］"), plain_signs("[١، ٥]"), plain_signs("[१]"), plain_signs("①⑤"), plain_signs("x²")
        ('[1]', '[1, 5]', '[1]', ' 1  5 ', 'x²')
    """
    if text.isascii():
        return text
    return "".join(character if character.isascii() else _plain(character) for character in text)


def _plain(character: str) -> str:
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    if unicodedata.decomposition(character).startswith("<circle>"):
        number = unicodedata.normalize("NFKC", character)
        if number.isdecimal():
            return f" {number} "
    return _PUNCTUATION.get(character, character)
