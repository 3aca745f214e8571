"""Unknown marks in a reply, and what a user can do about them."""

import pytest

from pyterrier_ikat.llms.failures import OnlyReasoning, UnknownMark
from pyterrier_ikat.llms.request import Reading, Reply, read

ANSWER = "Where does rooibos grow?"


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (f"<ponder>hm</ponder>{ANSWER}", "<ponder>"),
        (f"<ponder>{ANSWER}", "<ponder>"),
        (f"hm\n</ponder>{ANSWER}", "</ponder>"),
        (f"<|ponder|>hm<|answer_now|>{ANSWER}", "<|ponder|>"),
        (f"hm<|end_of_ponder|>{ANSWER}", "<|end_of_ponder|>"),
        (f"<｜ponder｜>{ANSWER}", "<｜ponder｜>"),
        (f"[PONDER]hm[/PONDER]{ANSWER}", "[PONDER]"),
        (f"hm[/PONDER]{ANSWER}", "[/PONDER]"),
        (f"◁ponder▷hm◁/ponder▷{ANSWER}", "◁ponder▷"),
        (f"Sure. <ponder>hm</ponder>{ANSWER}", "<ponder>"),
        (f"\ufeff**<ponder>** hm **</ponder>** {ANSWER}", "<ponder>"),
        (f"< ponder >hm</ ponder >{ANSWER}", "< ponder >"),
        (f"<思考>hm</思考>{ANSWER}", "<思考>"),
        (f"【思考】hm【/思考】{ANSWER}", "【/思考】"),
        (f"[ponder]hm[/ponder]{ANSWER}", "[/ponder]"),
        (f"&lt;think&gt;hm&lt;/think&gt;{ANSWER}", "&lt;think&gt;"),
        (f"<!-- hm -->{ANSWER}", "<!--"),
        (f"<think>hm</think><ponder>more</ponder>{ANSWER}", "<ponder>"),
        (f"<answer>{ANSWER}</answer> It grows there.", "<answer>"),
    ],
)
def test_an_unknown_mark_names_the_option_that_explains_it(text, mark):
    kind, reason = read(Reply(text)).fault
    assert kind is UnknownMark
    assert mark in reason
    assert 'such as reasoning="' in reason


@pytest.mark.parametrize(
    ("text", "mark", "repair"),
    [
        (f"<verdict>{ANSWER}</verdict>", "<verdict>", "name the tag in the prompt"),
        (
            f"<think>hm</think>\n<final_text>{ANSWER}</final_text>",
            "<final_text>",
            "name the tag in the prompt",
        ),
        (f"{ANSWER}<unused6226>", "<unused6226>", "chat template"),
        (f"{ANSWER}<tool_call>{{}}</tool_call>", "<tool_call>", "tool"),
    ],
)
def test_an_unknown_mark_without_an_option_names_its_repair(text, mark, repair):
    kind, reason = read(Reply(text)).fault
    assert (kind, mark in reason, repair in reason, "reasoning=" in reason) == (
        UnknownMark,
        True,
        True,
        False,
    )


@pytest.mark.parametrize(
    "text",
    [
        "<b>Mint</b>.",
        "<sup>1</sup> Mint.",
        "[1] says so.",
        "[NONE]",
        "`<ponder>` is a tag.",
        '"</ponder>" ends it.',
        "1 <2> 3",
        "<https://a.b>",
    ]
    + ["```\n<note>Mint</note>\n```", "a <- b", "The <ponder> tag.", "[b]Mint[/b]"]
    + [
        "<name>, where does it grow?",
        "<your name> grows mint.",
        "<ftp://a.b/c> has it.",
        "&lt;div&gt; is a box.",
        "<!DOCTYPE html><p>Mint",
    ],
)
def test_html_citations_code_and_mentions_are_not_unknown(text):
    assert read(Reply(text)) == (text, None)


def test_what_the_request_asks_for_is_not_unknown():
    asked = Reading(
        (),
        [
            {
                "role": "user",
                "content": (
                    "Write <statements>...</statements><rewrite>...</rewrite> and [DONE] and"
                    " <|stop|>."
                ),
            }
        ],
    )
    both = "<statements>1, 2</statements><rewrite>Mint?</rewrite>"
    for text in (both, "[DONE] Mint", "Mint <|stop|>"):
        assert read(Reply(text), asked) == (text, None)
    assert read(Reply(both)).fault[0] is UnknownMark
    assert read(Reply("<statements>1</statements>"), asked) == ("1", None)


@pytest.mark.parametrize(
    "name", ["answer", "output", "final_answer", "response", "query", "rewrite", "Answer"]
)
def test_a_text_wrapped_whole_is_the_text(name):
    for text in (
        f"<{name}>{ANSWER}</{name}>",
        f"<{name}>\n{ANSWER}\n</{name}>\n",
        f"<{name}>{ANSWER}",
        f"{ANSWER}</{name}>",
    ):
        assert read(Reply(text)) == (ANSWER, None)


def test_a_special_token_that_looks_like_no_mark_is_told():
    """As a tokenizer has it; a text with the same words is an answer."""
    assert read(Reply("Mint. endofprompt Where?", special=("endofprompt",))).fault[0] is UnknownMark
    assert read(Reply("Mint. endofprompt Where?")) == ("Mint. endofprompt Where?", None)


def test_only_reasoning_is_a_failure_of_its_kind():
    for text in ("<mm:think>hm</mm:think>", "◁think▷hm", "<|im_start|>assistant\n<|im_end|>"):
        assert read(Reply(text)).fault[0] is OnlyReasoning
