"""The marks of each family of models, as its chat template has them, whole and streamed."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyterrier_ikat.completions.forms import FAMILIES, forms, is_mark, pattern_of
from pyterrier_ikat.completions.reasoning import opening_mark, split_reasoning
from pyterrier_ikat.llms.request import Reply, read
from pyterrier_ikat.llms.streaming import seen_so_far

PONDER = (("<ponder>", "</ponder>"),)


@pytest.mark.parametrize(
    ("mark", "written", "not_so"),
    [
        ("<think>", "< think mode='deep'>", "<thinking>"),
        ("</think>", "< / think >", "</think x>"),
        ("<|im_start|> assistant", "<|im_start|>\nassistant", "<|im_start|>assistants"),
        ("Here's my response:", "Here’s  my\nresponse:", "Here'smy response:"),
        ('<details type="reasoning">', "<details open type = reasoning x>", "<details>"),
        ("[THINK]", "[THINK]", "[THINK ]"),
        ("<|think|>", "<|think|>", "<|think| >"),
        ("<<SYS>>", "<<SYS>>", "<SYS>"),
        ("<|turn>", "<|turn>", "<|turn x>"),
        ("<|turn> model", "<|turn>model", "<|turn>models"),
        ("<turn|>", "<turn|>", "<turn| x>"),
    ],
)
def test_a_mark_is_found_as_models_write_it(mark, written, not_so):
    pattern = re.compile(pattern_of(mark))
    assert pattern.fullmatch(written)
    assert not pattern.match(not_so)


def test_a_token_of_a_tokenizer_is_a_mark_or_a_part():
    tokens = ["[/THINK]", "<|im_middle|>", " <THINK> ", "<|sep|>", "<unk>", "<ponder>", "assistant"]
    assert [is_mark(token) for token in tokens] == [True, True, True, True, False, False, False]
    for token in ("<answer>", "</Final_Answer>", "<output>", "</response>", "<think>", "</reason>"):
        assert is_mark(token)
    assert is_mark("<|close|>")
    assert is_mark("<ponder>", PONDER)
    assert is_mark("<|Im_Middle|>")


def test_the_forms_have_the_marks_of_a_user_first():
    own = forms(PONDER)
    known = forms()
    assert own.pairs[0][:2] == PONDER[0]
    assert own.pairs[1:] == known.pairs
    assert own.reasoning == known.reasoning + 1
    assert known.ends == {"<|end_message|>", "<turn|>"}
    assert known.pairs[known.reasoning - 1].closing == "</details>"
    assert known.pairs[known.reasoning].opening == "<|START_RESPONSE|>"
    assert known.beginnings == [
        "here is my thought process:",
        "here's my thought process:",
        "analysis",
        "commentary",
        "assistant",
        "thought",
    ]


def test_plain_words_may_begin_reasoning():
    assert forms().worded_begins.match(" Here’s my thought process: hm")
    assert not forms().worded_begins.match("So here's my thought process: hm")


@pytest.mark.parametrize(
    ("text", "half"), [('Say "<think>', True), ('Say "<think>"', True), ("Say <think>", False)]
)
def test_an_end_may_become_a_mention(text, half):
    assert (forms().half_a_mention.search(text) is not None) == half


REASONING = [
    "<think> </think>",
    "<thinking> </thinking>",
    "<reasoning> </reasoning>",
    "<reason> </reason>",
    "<thought> </thought>",
    "<REASONING_SCRATCHPAD> </REASONING_SCRATCHPAD>",
    "<seed:think> </seed:think>",
    "<mm:think> </mm:think>",
    "<longcat_think> </longcat_think>",
    "<ifm|think> </ifm|think>",
    "<ifm|think_fast> </ifm|think_fast>",
    "<ifm|think_faster> </ifm|think_faster>",
    "[THINK] [/THINK]",
    "<|START_THINKING|> <|END_THINKING|>",
    "<|channel>thought <channel|>",
    "<|channel> <channel|>",
    "◁think▷ ◁/think▷",
    "<|open|>think<|sep|> <|close|>think<|sep|>",
    "<|begin_of_thought|> <|end_of_thought|>",
    "<|inner_prefix|> <|inner_suffix|>",
    "<|think:start|> <|think:end|>",
    "<|plamo:begin_think:plamo|> <|plamo:end_think:plamo|>",
    "[unused16] [unused17]",
]
NEVER_ALONE = [
    ("<|turn>thinking\n", "<turn|>"),
    ("<|content_thinking|>", "<|end_message|>"),
    ("Here is my thought process:", "Here is my response:"),
    ("Here's my thought process:", "Here's my response:"),
    ('<details type="reasoning">', "</details>"),
]
PAIRS = [tuple(line.split()) for line in REASONING]
AROUND_ANSWERS = [
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|START_TEXT|>", "<|END_TEXT|>"),
    ("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
    ("<answer>", "</answer>"),
    ("<response>", "</response>"),
    ("<|answer|>", "<|/answer|>"),
    ("<|response|>", "<|/response|>"),
    ("<output>", "</output>"),
    ("<final_answer>", "</final_answer>"),
]
OWN = [
    "<longcat_assistant>",
    "[/INST]",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "<|CHATBOT_TOKEN|>",
    "<|turn>model",
    "<|im_assistant|>assistant<|im_middle|>",
    "<|open|>message<|sep|>",
    "<|assistant_start|>",
    "<|message_model|>",
    "<|content_text|>",
    "<|start_of_role|>assistant<|end_of_role|>",
    "<|hy_Assistant|>",
    "<|im_start|>assistant<|im_sep|>",
    "<|im_start|>assistant",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|header_start|>assistant<|header_end|>",
    "<start_of_turn>model",
    "<|assistant|>",
    "<｜Assistant｜>",
    "[|assistant|]",
]
OTHERS = [
    "<longcat_user>",
    "<longcat_system>",
    "[INST]",
    "[SYSTEM_PROMPT]",
    "<<SYS>>",
    "<|USER_TOKEN|>",
    "<|SYSTEM_TOKEN|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|turn>",
    "<|im_user|>",
    "<|im_system|>",
    "<|user_start|>",
    "<|system_start|>",
    "<|developer_start|>",
    "<|message_user|>",
    "<|message_system|>",
    "<|start_of_role|>",
    "<|hy_User|>",
    "<|im_start|>",
    "<|start_header_id|>",
    "<|header_start|>",
    "<start_of_turn>",
    "<|user|>",
    "<|system|>",
    "<|observation|>",
    "<｜User｜>",
    "[|user|]",
    "[|system|]",
    "<|start|>",
]
ENDS = [
    "<seed:eos>",
    "</longcat_s>",
    "</s>",
    "<|END_OF_TURN_TOKEN|>",
    "<turn|>",
    "[EOS]",
    "[EOT]",
    "<|close|>message<|sep|>",
    "<|end_of_msg|>",
    "<|assistant_end|>",
    "<|plamo:tag|>",
    "<|end_message|>",
    "<|content_model_end_sampling|>",
    "<|end_of_text|>",
    "<|eos|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<end_of_turn>",
    "<eos>",
    "<|end|>",
    "<|EOT|>",
    "<|end_of_turn|>",
    "<eop>",
    "<｜end▁of▁sentence｜>",
    "<|end▁of▁sentence|>",
    "[|endofturn|]",
    "<|return|>",
    "<|call|>",
]
EMPTY = [
    "<seed:bos>",
    "<longcat_s>",
    "<s>",
    "<BOS_TOKEN>",
    "<|think|>",
    "[BOS]",
    "<|startoftext|>",
    "<|begin_of_box|>",
    "<|end_of_box|>",
    "<|begin_of_text|>",
    "<|python_tag|>",
    "<bos>",
    "<pad>",
    "[gMASK]",
    "<sop>",
    "<｜begin▁of▁sentence｜>",
]


def answer_of(text):
    return split_reasoning(text).text


@pytest.mark.parametrize(("opening", "closing"), [*PAIRS, *NEVER_ALONE])
def test_reasoning_between_known_marks_is_no_answer(opening, closing):
    assert answer_of(f"{opening}Is it sage?\n\n{closing}\n\nMint tea.") == "Mint tea."


@pytest.mark.parametrize(("opening", "closing"), PAIRS)
def test_a_closing_mark_alone_ends_the_reasoning_of_a_prompt(opening, closing):
    assert answer_of(f"Is it sage?\n{closing}\nMint tea.") == "Mint tea."
    split = split_reasoning(f"{opening}Is it sage?")
    assert (split.text, split.open) == ("", True)


@pytest.mark.parametrize(("opening", "closing"), AROUND_ANSWERS)
def test_an_answer_stands_between_its_marks(opening, closing):
    assert answer_of(f"<think>Hm.</think>{opening}Mint tea.{closing}") == "Mint tea."


@pytest.mark.parametrize("mark", OWN)
def test_what_begins_the_models_own_turn_is_left_out(mark):
    assert answer_of(f"{mark}\nMint tea.") == "Mint tea."


@pytest.mark.parametrize("mark", OTHERS)
def test_a_turn_of_somebody_else_is_left_out(mark):
    assert answer_of(f"Mint tea.\n{mark}user\nWhich tea is best?") == "Mint tea."


@pytest.mark.parametrize("mark", ENDS)
def test_the_end_of_a_turn_ends_the_answer(mark):
    assert answer_of(f"Mint tea.{mark}") == "Mint tea."


@pytest.mark.parametrize("mark", EMPTY)
def test_a_token_that_says_nothing_is_left_out(mark):
    assert answer_of(f"{mark}Mint tea.") == "Mint tea."


ANSWER = "Where does rooibos grow?"
THOUGHT = "The user means rooibos, from a dog owner."


def written(mark):
    """A mark as a model writes it."""
    return mark if mark[0].isalpha() else re.sub(r"(?<=>) | (?=<)", "", mark)


FAMILY_PAIRS = []
FAMILY_ENDS = []
FAMILY_HEADERS = []
for family in FAMILIES:
    for pair in family.reasoning:
        FAMILY_PAIRS.append((written(pair.opening), written(pair.closing), pair.alone))
    FAMILY_ENDS += map(written, family.ends)
    FAMILY_HEADERS += map(written, family.own)
WORDS = [pair for pair in FAMILY_PAIRS if pair[0][0].isalpha()]
FAMILY_MARKS = [pair for pair in FAMILY_PAIRS if pair not in WORDS]


def test_each_family_says_where_it_was_seen():
    assert all(family.seen and family.models for family in FAMILIES)


@pytest.mark.parametrize(("opening", "closing", "alone"), FAMILY_PAIRS)
def test_reasoning_is_left_away_in_every_variant(opening, closing, alone):
    variants = [
        f"{opening}\n{THOUGHT}\n{closing}{ANSWER}",
        f"\n {opening} {THOUGHT} {closing} \n\n{ANSWER}\n",
        f"{opening}{closing}{ANSWER}",
    ]
    variants.append(f"{opening.upper()}\n{THOUGHT}{closing.upper()}{ANSWER}")
    if alone:
        variants += [f"{THOUGHT}\n{closing}\n{ANSWER}", f"{closing}{ANSWER}"]
    assert [split_reasoning(text) for text in variants] == [(ANSWER, False)] * len(variants)


@pytest.mark.parametrize(("opening", "closing", "alone"), FAMILY_MARKS)
def test_reasoning_without_an_end_is_told_and_a_mention_stays(opening, closing, alone):
    assert split_reasoning(f"{opening}\n{THOUGHT}").open
    mention = f'Models write "{opening}" first, and `{closing}` then.'
    assert split_reasoning(mention) == (mention, False)
    assert opening_mark(f"user: Which tea? {opening}\n") == opening
    assert opening_mark(f"{opening}\n\n{closing}\n\n") == ""


@pytest.mark.parametrize("header", [*FAMILY_HEADERS, "<s>", "<bos>", "<|begin_of_text|>"])
def test_the_header_of_a_turn_is_no_text(header):
    assert split_reasoning(f"{header}\n{ANSWER}") == (ANSWER, False)


@pytest.mark.parametrize("end", FAMILY_ENDS)
def test_a_text_ends_where_its_turn_ends(end):
    assert split_reasoning(f"{ANSWER}{end}") == (ANSWER, False)
    assert split_reasoning(f"{ANSWER}{end}\n<|im_start|>user\nAnd mint?") == (ANSWER, False)


PIECES = st.one_of(
    st.sampled_from(
        [
            "Mint. ",
            "1 < 2",
            "\n- a list\n",
            "[1]",
            "`code`",
            "<b>no</b>",
            '"',
            "assistant",
            "<ponder>",
            "<x",
            "[a](http://b) ",
        ]
    ),
    st.sampled_from([f"{opening}\nhm{closing}\n" for opening, closing, _ in FAMILY_MARKS]),
    st.sampled_from(
        [*FAMILY_ENDS, *FAMILY_HEADERS, "<s>", "<|im_start|>user\n", "[INST]", "<<SYS>>"]
    ),
)


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=7).map("".join))
def test_what_is_seen_of_a_stream_is_how_its_text_begins(text):
    """With every end of reasoning behind its beginning.

    One alone takes back what was seen before it.
    """
    found, fault = read(Reply(text))
    seen = [seen_so_far(text[:end]) for end in range(len(text) + 1)]
    assert fault or [part for part in seen if part and not found.startswith(part)] == []
