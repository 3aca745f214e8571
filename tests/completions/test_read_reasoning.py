"""The answer in a completion, and marks that are unknown: worked out by hand."""

import pytest

from pyterrier_ikat.completions.reasoning import (
    is_wrapped,
    names_in,
    opening_mark,
    split_reasoning,
    unknown_mark,
    unwrapped,
    without_reasoning,
)

PONDER = (("<ponder>", "</ponder>"),)
ANSWERS = {
    " Paris ": "Paris",
    " <think>hm</think>a<think>b</think>c ": "ac",
    "a</think>b</think>c": "c",
    "<think>a<think>b</think>c": "c",
    "<think>a</thinking>b</think>c": "c",
    "< THINK >a</ think >b": "b",
    'Say "<think>" first': 'Say "<think>" first',
    "`</think>` is it": "`</think>` is it",
    "<think>`</think>`x</think>y": "y",
    "<|im_start|>assistant\nParis<|im_end|>\nmore": "Paris",
    "<|im_end|>Paris": "Paris",
    "<|im_start|>user\nHi<|im_end|><|im_start|>assistant\nParis": "Paris",
    "<|user|>Hi<|assistant|>Paris<|user|>More": "Paris",
    "<|user|>Hi": "",
    "<|user|>Hi<|end|>Paris": "",
    "<|user|><think>a</think>Hi": "",
    "<s>Paris</s>": "Paris",
    "<s>a</s> b": "a",
    "Tea is <s>bad</s> good": "Tea is <s>bad</s> good",
    "Tea <s>bad</s> or <s>hay</s>.": "Tea <s>bad</s> or <s>hay</s>.",
    "Tea <s>bad</s></s> or": "Tea <s>bad</s>",
    "Tea </s>more": "Tea",
    "Tea <s>x": "Tea <s>x",
    "<|begin_of_box|>Paris<|end_of_box|>": "Paris",
    "<bos>a<pad>b": "ab",
    "Tea <|begin_of_box|>mint<|end_of_box|> cools": "Tea mint cools",
    "x<|START_RESPONSE|>Paris<|END_RESPONSE|>more": "Paris",
    "<|turn>model\nParis<turn|>": "Paris",
    "<|turn>thinking\nhm<turn|>Paris": "Paris",
    "Paris<turn|>x": "Paris",
    "<|content_thinking|>hm<|end_message|><|content_text|>Paris": "Paris",
    "</details>Paris": "</details>Paris",
    '<details type="reasoning" done="true">hm</details>Paris': "Paris",
    "Here is my thought process: hm Here is my response: Paris": "Paris",
    "Here’s  my thought process: hm Here’s my response: Paris": "Paris",
    "Here is my thought process: hm": "Here is my thought process: hm",
    "Well. Here is my response: Paris": "Well. Here is my response: Paris",
    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Paris"
    "<|return|>more": "Paris",
    "analysishmassistantfinalParisassistantanalysismore": "Paris",
    "analysis\nhm\nassistant final Paris": "Paris",
    "analysis hm": "analysis hm",
    "assistantfinalParis": "Paris",
    "Tell the assistant final words": "Tell the assistant final words",
    "assistant\nParis": "Paris",
    "assistant Paris": "assistant Paris",
    "<answer>Paris</answer>": "<answer>Paris</answer>",
    "<think>a</think><answer>Paris</answer>": "Paris",
    "<think>a</think><b>Paris</b>": "<b>Paris</b>",
    "[THINK]hm[/THINK]Paris": "Paris",
    "◁think▷hm◁/think▷Paris": "Paris",
    "\n<|im_start|>assistant\nParis": "Paris",
    '<details type="reasoning">a</think>b</details>c': "c",
    "<|channel>thought a<|channel>b<channel|>c": "c",
    "Here is my thought process: a\nb Here is my response: Paris": "Paris",
    "<ponder>hm</ponder>Paris": "<ponder>hm</ponder>Paris",
    "<|channel|>final<|message|>Paris<|channel|>analysis<|message|>hm": "Paris",
    "Paris.<|im_start|>assistant\nMore": "Paris.",
    "<|channel>hm<channel|>Paris": "Paris",
    "<THINK>a</THINK>b": "b",
    'Say "<THINK>" first': 'Say "<THINK>" first',
    'Say "<think>...</think>" first': 'Say "<think>...</think>" first',
    "Here is my thought process: a Here is my response: b. Here is my response: c": (
        "b. Here is my response: c"
    ),
}


@pytest.mark.parametrize("text", ANSWERS)
def test_the_answer_is_outside_of_reasoning_and_other_turns(text):
    assert split_reasoning(text) == (ANSWERS[text], False)


OTHER_TURNS = [
    "<longcat_system>",
    "[SYSTEM_PROMPT]",
    "<<SYS>>",
    "<|USER_TOKEN|>",
    "<|SYSTEM_TOKEN|>",
    "<|im_system|>",
    "<|developer_start|>",
    "<|message_system|>",
    "<|header_start|>",
    "<|observation|>",
    "[|system|]",
]


@pytest.mark.parametrize("mark", OTHER_TURNS)
def test_an_answer_ends_where_any_other_turn_begins(mark):
    assert split_reasoning(f"Paris{mark}More") == ("Paris", False)


@pytest.mark.parametrize(
    "token",
    ["<seed:bos>", "<longcat_s>", "<BOS_TOKEN>", "<|think|>", "[BOS]", "<|startoftext|>"]
    + ["<|begin_of_text|>", "<|python_tag|>", "<pad>", "[gMASK]", "<sop>"]
    + ["<｜begin▁of▁sentence｜>"],
)
def test_a_token_that_says_nothing_is_left_out(token):
    assert split_reasoning(f"Tea{token} cools{token}") == ("Tea cools", False)


@pytest.mark.parametrize(
    "text",
    [
        "<think>hm",
        "Paris <think>hm",
        "<think>a</think>b<think>c",
        "<|channel|>analysis<|message|>hm",
        "analysishm",
        '"<think>"hm',
        "thought\nhm",
    ],
)
def test_reasoning_without_an_end_leaves_no_answer(text):
    assert split_reasoning(text) == ("", True)


def test_marks_that_a_user_names_are_reasoning_too():
    assert split_reasoning("<ponder>hm</ponder>Paris", PONDER) == ("Paris", False)
    assert split_reasoning("hm</ponder>Paris", PONDER) == ("Paris", False)
    assert split_reasoning("<ponder>hm", PONDER) == ("", True)
    assert split_reasoning("<think>a</think><ponder>hm</ponder>Paris", PONDER).text == "Paris"


@pytest.mark.parametrize(
    ("prompt", "mark"),
    [
        ("x <think>\n\n", "<think>"),
        ("x </think><think>", "<think>"),
        ("[THINK]", "[THINK]"),
        ("<think></think>", ""),
        ("<think> x", ""),
        ("", ""),
        ("<|START_RESPONSE|>", ""),
        ("<|assistant|>", ""),
        ("x <ponder>", ""),
    ],
)
def test_a_prompt_may_end_with_a_mark_of_reasoning(prompt, mark):
    assert opening_mark(prompt) == mark


def test_a_prompt_may_end_with_a_mark_that_a_user_names():
    assert opening_mark("x <ponder>", PONDER) == "<ponder>"


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        (" <answer> a </answer> ", "a"),
        ("<answer>a", "a"),
        ("a</answer>", "a"),
        ("<ANSWER id='1'>a</answer >", "a"),
        ("<answer>a</b>", "a</b>"),
        ("<b>a</answer>", "<b>a"),
        ("<rewrite>a</query>", "a</query>"),
        ("<b>a</b>", "<b>a</b>"),
        ("<answer>a</answer> b", "<answer>a</answer> b"),
        ("<answer>a</answer><answer>b</answer>", "<answer>a</answer><answer>b</answer>"),
        ("<answer>a<Answer>b</answer>", "<answer>a<Answer>b</answer>"),
        ("a", "a"),
    ],
)
def test_a_tag_around_the_whole_text_is_removed(text, inner):
    assert unwrapped(text) == inner
    assert unwrapped("<b>a</b>", ("b",)) == "a"


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [
        ("<verdict x=1>a</Verdict>", True),
        ("<Verdict>a</Verdict>", True),
        ("<v>a", False),
        ("a</v>", False),
        ("<v>a</v>b", False),
        ("<v>a</v><v>b</v>", False),
    ],
)
def test_a_text_is_wrapped_by_a_tag_of_any_name(text, wrapped):
    assert is_wrapped(text) == wrapped


def test_the_tags_of_all_messages_have_names():
    messages = [{"content": "<a>x</b> < C /d> <É1:x.y-z>"}, {"content": "<Why/>"}, {"content": 5}]
    assert names_in(messages) == {"a", "b", "c", "é1:x.y-z", "why"}


ASKED = [{"role": "user", "content": "Write <verdict>..</verdict>, [NOTE] and ◁x▷"}]
UNKNOWN = {
    "<ponder>hm</ponder>R": "<ponder>",
    "hm</ponder>R": "</ponder>",
    "a</b></ponder>": "</ponder>",
    "a <ponder>x</ponder>": "<ponder>",
    "a <Ponder x='1'>x</ponder>": "<Ponder x='1'>",
    "* <ponder> x": "<ponder>",
    "[OTHER] x": "[OTHER]",
    "[NOTE] x\n[OTHER]": "",
    "x [OTHER] y": "",
    "[OTHER]": "",
    "◁y▷ a": "◁y▷",
    "a ◁y▷": "",
    "&lt;ponder&gt; a": "&lt;ponder&gt;",
    "a &lt;ponder&gt;": "",
    "a &lt;/ponder&gt;": "&lt;/ponder&gt;",
    "&lt;div&gt; a &lt;/div&gt;": "",
    "a <|foo|> b": "<|foo|>",
    "<foo|>a": "<foo|>",
    "a <unused5>": "<unused5>",
    "[/bold] x": "[/bold]",
    "x [bold]y[/bold]": "",
    "[bold]y[/bold]": "[/bold]",
    "[/b] x [/quote]": "",
    "[/b] x [/ponder]": "[/ponder]",
    "\n[bold]y[/bold]": "[/bold]",
    "x [/bold] [bold]": "[/bold]",
    "> [OTHER] x": "[OTHER]",
    "> ◁y▷ a": "◁y▷",
    "&lt;DIV&gt; a": "",
    "<B>R</B>": "",
    "a</B>": "",
    "x</ponder> <ponder>": "</ponder>",
    "<b>R</b>": "",
    "<verdict>x</verdict>": "",
    "[NOTE] x": "",
    "◁x▷ a": "",
    "`<ponder>` x": "",
    '"<ponder>" x': "",
    "```\n<ponder>\n```": "",
    "<!-- a --> b": "<!--",
    "<name>, where": "",
    "<name> buys": "<name>",
    "<your name> buys": "",
    "<your name> buys <b>x</b>": "<your name>",
    "<https://a.org> x": "",
    "<a href='x'>x</a>": "",
    "<1> x": "",
    "<3 x>": "<3 x>",
    "a < b > c": "",
    "plain": "",
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_mark_is_named(text):
    assert unknown_mark(text, ASKED) == UNKNOWN[text]


def test_a_tag_that_nobody_asked_for_is_unknown():
    assert unknown_mark("<verdict>x") == "<verdict>"
    assert unknown_mark("[NOTE] x", [{"role": "system", "content": "Judge."}, *ASKED]) == ""
    assert unknown_mark("◁x▷ a") == "◁x▷"


ANSWER = "Where does rooibos grow?"
THOUGHT = "The user means rooibos, from a dog owner."


def test_words_that_end_no_reasoning_are_the_answer():
    said = "Here is my thought process: it names no farm. Score: 1"
    assert split_reasoning(said) == (said, False)
    assert split_reasoning("Here's my thought process: hm.\n\nHere is my response:\nMint.") == (
        "Mint.",
        False,
    )


@pytest.mark.parametrize(
    "text",
    [
        f"<|im_start|>user\nWhich tea?<|im_end|>\n<|im_start|>assistant\n{ANSWER}<|im_end|>",
        f"<s>[INST] Which tea? [/INST] {ANSWER}</s>",
        f"{ANSWER} [INST] And mint? [/INST] Mint.",
        f"<|start_header_id|>assistant<|end_header_id|>\n\n<think>hm</think>{ANSWER}<|eot_id|>",
        f"<|message_model|><|content_thinking|>hm<|end_message|><|message_model|><|content_text|>{ANSWER}<|end_message|>",
        f"<|open|>think<|sep|>hm<|close|>think<|sep|><|open|>response<|sep|>{ANSWER}<|close|>response<|sep|><|close|>message<|sep|>",
        f"<|begin_of_thought|>hm<|end_of_thought|>\n\n<|begin_of_solution|>{ANSWER}<|end_of_solution|>",
        (
            "<details done='true' type='reasoning'>\n<summary>3 seconds</summary>\n>"
            f" hm\n</details>\n{ANSWER}"
        ),
        f"assistant\n\n{ANSWER}",
        f"<|im_start|>assistant<|im_sep|>{ANSWER}<|im_end|>",
        f"< think >hm</ think >{ANSWER}",
        f"<think>hm</think><|begin_of_box|>{ANSWER}<|end_of_box|>",
        f"<|turn>model\n<|channel>thought\n<channel|>{ANSWER}<turn|>",
    ],
)
def test_a_turn_is_cut_out_of_its_template(text):
    assert split_reasoning(text) == (ANSWER, False)


def test_html_is_no_template():
    for text in (
        "It costs <s>20</s> 10 dollars.",
        "<details><summary>More</summary>Mint.</details>",
        "<b>Mint</b> [1].<sup>2</sup>",
    ):
        assert split_reasoning(text) == (text, False)
        assert unknown_mark(text) == ""


def test_reasoning_whose_marks_a_server_removed_is_no_answer():
    assert split_reasoning(f"thought\n{THOUGHT}\n{ANSWER}").open  # where it ends is lost


def test_thinking_that_was_never_closed_is_no_answer():
    assert without_reasoning("<think>so the user wants") == ""
    assert without_reasoning("so the user wants</think>\nOats.") == "Oats."
