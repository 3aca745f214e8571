"""The marks of each family of models, as its chat template has them. A lost one is noticed."""

import pytest

from pyterrier_ikat.completions.json_answers import NUMBER, TEXT, WHOLE, choice_of, list_of
from pyterrier_ikat.completions.kinds import (
    ACTION,
    ANSWER,
    COPIES,
    FINAL_ACTION,
    IDS,
    LABEL,
    LEARNED,
    LINE,
    PASSAGE,
    QUERIES,
    RANKING,
    REWRITE,
    SCORES,
    verdict,
)
from pyterrier_ikat.completions.reasoning import split_reasoning
from pyterrier_ikat.completions.signs import plain_signs

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


def read(text):
    return split_reasoning(text).text


@pytest.mark.parametrize(("opening", "closing"), [*PAIRS, *NEVER_ALONE])
def test_reasoning_between_known_marks_is_no_answer(opening, closing):
    assert read(f"{opening}Is it sage?\n\n{closing}\n\nMint tea.") == "Mint tea."


@pytest.mark.parametrize(("opening", "closing"), PAIRS)
def test_a_closing_mark_alone_ends_the_reasoning_of_a_prompt(opening, closing):
    assert read(f"Is it sage?\n{closing}\nMint tea.") == "Mint tea."
    split = split_reasoning(f"{opening}Is it sage?")
    assert (split.text, split.open) == ("", True)


@pytest.mark.parametrize(("opening", "closing"), AROUND_ANSWERS)
def test_an_answer_stands_between_its_marks(opening, closing):
    assert read(f"<think>Hm.</think>{opening}Mint tea.{closing}") == "Mint tea."


@pytest.mark.parametrize("mark", OWN)
def test_what_begins_the_models_own_turn_is_left_out(mark):
    assert read(f"{mark}\nMint tea.") == "Mint tea."


@pytest.mark.parametrize("mark", OTHERS)
def test_a_turn_of_somebody_else_is_left_out(mark):
    assert read(f"Mint tea.\n{mark}user\nWhich tea is best?") == "Mint tea."


@pytest.mark.parametrize("mark", ENDS)
def test_the_end_of_a_turn_ends_the_answer(mark):
    assert read(f"Mint tea.{mark}") == "Mint tea."


@pytest.mark.parametrize("mark", EMPTY)
def test_a_token_that_says_nothing_is_left_out(mark):
    assert read(f"{mark}Mint tea.") == "Mint tea."


@pytest.mark.parametrize(
    ("sign", "plain"),
    list(zip("［］【】〔〕（）｛｝，、،；؛：＃", "[][][](){},,,;;:#", strict=True))
    + [("１", "1"), ("٥", "5"), ("१", "1"), ("③", " 3 "), ("²", "²"), ("茶", "茶")],
)
def test_signs_of_other_scripts_are_read_as_those_of_ascii(sign, plain):
    assert plain_signs(f"a{sign}") == f"a{plain}"


STATEMENT = {"message": WHOLE, "words": TEXT, "statement": TEXT, "replaces": list_of(TEXT)}
SCHEMAS = {
    "queries": (QUERIES, {"queries": list_of(TEXT)}),
    "ids": (IDS, {"statements": list_of(TEXT)}),
    "copies": (COPIES, {"statements": list_of(TEXT)}),
    "ranking": (RANKING, {"ranking": list_of(WHOLE)}),
    "label": (LABEL, {"label": choice_of([0, 1, 2, 3, 4])}),
    "action": (
        ACTION,
        {"reason": TEXT, "action": choice_of(["answer", "ask", "abstain"]), "question": TEXT},
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_answer_as_json_has_the_fields_that_are_read(name):
    kind, properties = SCHEMAS[name]
    assert kind.structure.schema["properties"] == properties
    assert kind.structure.schema["required"] == list(properties)


def test_lists_of_objects_have_the_fields_that_are_read():
    for kind, fields in ((LEARNED, STATEMENT), (SCORES, {"id": TEXT, "score": NUMBER})):
        items = kind.structure.schema["properties"]["statements"]["items"]
        assert items["properties"] == fields
        assert items["required"] == list(fields)


def test_repetitions_are_kept_only_where_the_text_is_the_result():
    kinds = {"answer": ANSWER, "line": LINE, "passage": PASSAGE, "rewrite": REWRITE}
    kinds.update(queries=QUERIES, ids=IDS, label=LABEL, learned=LEARNED)
    assert [name for name, kind in kinds.items() if kind.whole] == ["answer", "line"]


@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        (QUERIES, {"queries": ["a  b", "A b", "c"]}, ["a b", "c"]),
        (SCORES, {"statements": [{"id": "2", "score": 0.5}]}, [("2", 0.5)]),
        (RANKING, {"ranking": [2, 1]}, [2, 1]),
        (RANKING, {"ranking": []}, None),
        (
            ACTION,
            {"reason": "", "action": "ask", "question": " Which  tea? "},
            ("ask", "Which tea?"),
        ),
        (ACTION, {"reason": "", "action": "ask", "question": " "}, None),
        (ACTION, {"reason": "", "action": "answer", "question": "Which?"}, ("answer", "")),
        (FINAL_ACTION, {"reason": "", "action": "ask", "question": "Which?"}, None),
        (FINAL_ACTION, {"reason": "", "action": "abstain", "question": ""}, ("abstain", "")),
    ],
)
def test_an_answer_as_json_is_the_value_of_a_text(kind, answer, value):
    assert kind.of_json(answer) == value


def test_a_verdict_has_its_reason_and_each_decision_once():
    kind = verdict("nuggets", list_of(WHOLE), lambda text: None)
    assert kind.of_json({"reason": " It  says so. ", "nuggets": [2, 1, 2]}) == (
        [2, 1],
        "It says so.",
    )
    assert list(kind.structure.schema["properties"]) == ["reason", "nuggets"]
