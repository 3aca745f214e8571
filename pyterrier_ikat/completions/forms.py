r"""How language models mark what isn't their answer.

That is reasoning, the turns of chat templates, and special tokens.

`FAMILIES` is the only list of these forms. Whoever reads a completion, shows one while it is
written, or decodes tokens asks the patterns below, which are made of it. A form of one's own comes
as ``reasoning="<ponder> </ponder>"`` (`Pair`), and one that nobody knows is told
(`pyterrier_ikat.completions.reasoning.unknown_mark`).
"""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Pair(NamedTuple):
    """The marks around reasoning, or around an answer.

    Attributes:
        opening: the first one.
        closing: the last one.
        alone: whether the closing mark is one without an opening mark, too. Where a prompt ends
            with the opening mark, a completion has only the closing one. HTML and plain words end
            nothing that they did not begin.
    """

    opening: str
    closing: str
    alone: bool = True


class Family(NamedTuple):
    """The forms of a family of models.

    Marks are as they are written. A blank in a mark stands for any blanks, or none.

    Attributes:
        models: whose form it is.
        seen: where it was seen.
        reasoning: the marks around reasoning.
        answer: the marks around the answer, before which nothing counts.
        own: what begins the model's own turn.
        others: what begins the turn of somebody else, who was asked for nothing: the prompt
            repeated, or a next turn invented.
        ends: what ends a turn.
        empty: tokens that say nothing, such as the beginning of a text and padding.
    """

    models: str
    seen: tuple[str, ...]
    reasoning: tuple[Pair, ...] = ()
    answer: tuple[Pair, ...] = ()
    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


FAMILIES = (
    Family(
        "DeepSeek R1, Qwen3, GLM, Phi-4, Nemotron, MiniMax M2, Step3, and most others",
        (
            "sgl-project/sglang: python/sglang/srt/parser/reasoning_parser.py",
            "cubist38/mlx-openai-server#179 (the end alone)",
        ),
        reasoning=(Pair("<think>", "</think>"),),
    ),
    Family(
        "Claude's form, which others copy",
        ("QwenLM/qwen-code#10791", "tinyhumansai/openhuman#6184"),
        reasoning=(
            Pair("<thinking>", "</thinking>"),
            Pair("<reasoning>", "</reasoning>"),
            Pair("<reason>", "</reason>"),
        ),
    ),
    Family(
        "EXAONE Deep, Gemma 4 behind some servers",
        ("NousResearch/hermes-agent#8562", "NousResearch/hermes-agent#43950 (the scratchpad)"),
        reasoning=(
            Pair("<thought>", "</thought>"),
            Pair("<REASONING_SCRATCHPAD>", "</REASONING_SCRATCHPAD>"),
        ),
    ),
    Family(
        "Seed OSS",
        ("vllm-project/vllm: vllm/reasoning/seedoss_reasoning_parser.py",),
        reasoning=(Pair("<seed:think>", "</seed:think>"),),
        ends=("<seed:eos>",),
        empty=("<seed:bos>",),
    ),
    Family(
        "MiniMax M3",
        ("vllm-project/vllm#46042", "smg-project/smg#2448 (the end alone, before the answer)"),
        reasoning=(Pair("<mm:think>", "</mm:think>"),),
    ),
    Family(
        "LongCat",
        ("vllm-project/vllm: vllm/reasoning/longcat_reasoning_parser.py",),
        reasoning=(Pair("<longcat_think>", "</longcat_think>"),),
        own=("<longcat_assistant>",),
        others=("<longcat_user>", "<longcat_system>"),
        ends=("</longcat_s>",),
        empty=("<longcat_s>",),
    ),
    Family(
        "K2 Horizon",
        ("vllm-project/vllm: vllm/reasoning/k2_horizon_reasoning_parser.py",),
        reasoning=(
            Pair("<ifm|think>", "</ifm|think>"),
            Pair("<ifm|think_fast>", "</ifm|think_fast>"),
            Pair("<ifm|think_faster>", "</ifm|think_faster>"),
        ),
    ),
    Family(
        "Mistral, Magistral, Llama 2",
        (
            "waybarrios/vllm-mlx#599",
            "meta-llama/llama#563 (the prompt repeated)",
            "logancyang/obsidian-copilot#2284",
        ),
        reasoning=(Pair("[THINK]", "[/THINK]"),),
        own=("[/INST]",),
        others=("[INST]", "[SYSTEM_PROMPT]", "<<SYS>>"),
        ends=("</s>",),
        empty=("<s>",),
    ),
    Family(
        "Cohere's Command",
        (
            "vllm-project/vllm: vllm/reasoning/cohere_command_reasoning_parser.py",
            "logancyang/obsidian-copilot#2284",
        ),
        reasoning=(Pair("<|START_THINKING|>", "<|END_THINKING|>"),),
        answer=(
            Pair("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
            Pair("<|START_TEXT|>", "<|END_TEXT|>"),
        ),
        own=("<|START_OF_TURN_TOKEN|> <|CHATBOT_TOKEN|>", "<|CHATBOT_TOKEN|>"),
        others=("<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|SYSTEM_TOKEN|>"),
        ends=("<|END_OF_TURN_TOKEN|>",),
        empty=("<BOS_TOKEN>",),
    ),
    Family(
        "Gemma 4",
        (
            "qwersyk/Newelle#427",
            "attevon-llc/OpenTranscribe#439",
            "vllm-project/vllm#38858 (special tokens)",
            "Blaizzy/mlx-vlm#899 (without a label)",
            "nesquena/hermes-webui#648 (as a turn)",
        ),
        reasoning=(
            Pair("<|channel> thought", "<channel|>"),
            Pair("<|channel>", "<channel|>"),
            Pair("<|turn> thinking", "<turn|>", alone=False),
        ),
        own=("<|turn> model",),
        others=("<|turn>",),
        ends=("<turn|>",),
        empty=("<|think|>",),
    ),
    Family(
        "Kimi",
        ("keinsaasforever/better-chatbot#107",),
        reasoning=(Pair("◁think▷", "◁/think▷"),),
        own=("<|im_assistant|> assistant <|im_middle|>",),
        others=("<|im_user|>", "<|im_system|>"),
        ends=("[EOS]", "[EOT]"),
        empty=("[BOS]",),
    ),
    Family(
        "Kimi K3",
        (
            "sgl-project/sglang: python/sglang/srt/parser/reasoning_parser.py",
            "NousResearch/hermes-agent#73582",
        ),
        reasoning=(Pair("<|open|> think <|sep|>", "<|close|> think <|sep|>"),),
        answer=(Pair("<|open|> response <|sep|>", "<|close|> response <|sep|>"),),
        own=("<|open|> message <|sep|>",),
        ends=("<|close|> message <|sep|>", "<|end_of_msg|>"),
    ),
    Family(
        "OpenThinker",
        ("Infinitix-LLC/gpt_markdown#42",),
        reasoning=(Pair("<|begin_of_thought|>", "<|end_of_thought|>"),),
        answer=(Pair("<|begin_of_solution|>", "<|end_of_solution|>"),),
    ),
    Family(
        "Apertus",
        ("vllm-project/vllm#50496",),
        reasoning=(Pair("<|inner_prefix|>", "<|inner_suffix|>"),),
        own=("<|assistant_start|>",),
        others=("<|user_start|>", "<|system_start|>", "<|developer_start|>"),
        ends=("<|assistant_end|>",),
    ),
    Family(
        "Solar Open 2",
        ("vllm-project/vllm: vllm/reasoning/solar_open2_reasoning_parser.py",),
        reasoning=(Pair("<|think:start|>", "<|think:end|>"),),
    ),
    Family(
        "PLaMo 3",
        ("vllm-project/vllm: vllm/reasoning/plamo3_reasoning_parser.py",),
        reasoning=(Pair("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),),
        ends=("<|plamo:tag|>",),
    ),
    Family(
        "openPangu",
        ("vllm-project/vllm: vllm/reasoning/pangu_reasoning_parser.py",),
        reasoning=(Pair("[unused16]", "[unused17]"),),
    ),
    Family(
        "Inkling",
        ("sgl-project/sglang: python/sglang/srt/parser/inkling_tokenizer.py",),
        reasoning=(Pair("<|content_thinking|>", "<|end_message|>", alone=False),),
        own=("<|message_model|>", "<|content_text|>"),
        others=("<|message_user|>", "<|message_system|>"),
        ends=("<|end_message|>", "<|content_model_end_sampling|>"),
    ),
    Family(
        "Granite 3.2",
        ("vllm-project/vllm: vllm/reasoning/granite_reasoning_parser.py",),
        reasoning=(
            Pair("Here is my thought process:", "Here is my response:", alone=False),
            Pair("Here's my thought process:", "Here's my response:", alone=False),
        ),
        own=("<|start_of_role|> assistant <|end_of_role|>",),
        others=("<|start_of_role|>",),
        ends=("<|end_of_text|>",),
    ),
    Family(
        "gateways and Open WebUI, whatever the model",
        ("cogwheel0/conduit#731", "open-webui/open-webui: backend/open_webui/utils/middleware.py"),
        reasoning=(Pair('<details type="reasoning">', "</details>", alone=False),),
    ),
    Family(
        "Hunyuan, R1's prompts",
        ("sgl-project/sglang#7678",),
        answer=(
            Pair("<answer>", "</answer>"),
            Pair("<response>", "</response>"),
            Pair("<|answer|>", "<|/answer|>"),
            Pair("<|response|>", "<|/response|>"),
        ),
        own=("<|hy_Assistant|>",),
        others=("<|hy_User|>",),
        ends=("<|eos|>",),
        empty=("<|startoftext|>",),
    ),
    Family(
        "Reflection 70B, and models that were trained on the steps of agents",
        (
            "langchain-ai/langchain#26197",
            "langchain-ai/langchain: libs/langchain/langchain/agents/output_parsers/xml.py",
        ),
        answer=(Pair("<output>", "</output>"), Pair("<final_answer>", "</final_answer>")),
    ),
    Family(
        "Qwen, SmolLM2, and whatever is trained with ChatML",
        ("vllm-project/vllm#48748", "moltis-org/moltis#306"),
        # The first one is Phi-4's.
        own=("<|im_start|> assistant <|im_sep|>", "<|im_start|> assistant"),
        others=("<|im_start|>",),
        ends=("<|im_end|>", "<|endoftext|>"),
    ),
    Family(
        "GLM-4.5V, around answers and within them",
        ("zai-org/GLM-V: README.md",),
        empty=("<|begin_of_box|>", "<|end_of_box|>"),
    ),
    Family(
        "Llama 3 and 4",
        ("vllm-project/vllm#7811", "a-ghorbani/pocketpal-ai#113"),
        own=(
            "<|start_header_id|> assistant <|end_header_id|>",
            "<|header_start|> assistant <|header_end|>",
        ),
        others=("<|start_header_id|>", "<|header_start|>"),
        ends=("<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>"),
        empty=("<|begin_of_text|>", "<|python_tag|>"),
    ),
    Family(
        "Gemma 1 to 3",
        ("logancyang/obsidian-copilot#2284",),
        own=("<start_of_turn> model",),
        others=("<start_of_turn>",),
        ends=("<end_of_turn>", "<eos>"),
        empty=("<bos>", "<pad>"),
    ),
    Family(
        "Phi, Zephyr, OLMo, GLM",
        (
            "logancyang/obsidian-copilot#2284",
            "BerriAI/litellm#763",
            "sgl-project/sglang: python/sglang/srt/parser/reasoning_parser.py",
        ),
        own=("<|assistant|>",),
        others=("<|user|>", "<|system|>", "<|observation|>"),
        ends=("<|end|>", "<|EOT|>", "<|end_of_turn|>", "<eop>"),
        empty=("[gMASK]", "<sop>"),
    ),
    Family(
        "DeepSeek",
        ("deepseek-ai/DeepSeek-R1#461", "logancyang/obsidian-copilot#2284"),
        own=("<｜Assistant｜>",),
        others=("<｜User｜>",),
        ends=("<｜end▁of▁sentence｜>", "<|end▁of▁sentence|>"),
        empty=("<｜begin▁of▁sentence｜>",),
    ),
    Family(
        "EXAONE",
        ("ggml-org/llama.cpp#14630",),
        own=("[|assistant|]",),
        others=("[|user|]", "[|system|]"),
        ends=("[|endofturn|]",),
    ),
    Family(
        "gpt-oss, whose channels `Harmony` describes",
        ("openai/harmony: docs/format.md",),
        own=("<|start|> assistant",),
        others=("<|start|>",),
        ends=("<|return|>", "<|call|>"),
    ),
)
"""One row a family of models.

Special tokens are in it, too: some servers and tokenizers write them into the text.
"""

ANSWER_TAGS = ("answer", "final_answer", "output", "response", "query", "rewrite")
"""The names of tags in which models wrap a whole text, though nobody asked for it."""


class Harmony:
    """The channels of gpt-oss (openai/harmony: docs/format.md).

    A server may have removed the special tokens: then the channels' names alone are left.
    """

    channel = re.compile(r"(?<![`\"'])<\|(?:channel|message)\|>")
    control = re.compile(r"<\|(?:start|end|return|call|channel|message|constrain)\|>")
    final = re.compile(
        r"(?:<\|channel\|>|\A)\s{0,9}final\b[^<\n]{0,99}"
        r"(?:<\|constrain\|>[^<\n]{0,99})?<\|message\|>"
    )
    residue = re.compile(
        r"\A\s*(?:assistant)?(?:analysis|commentary)"
        r"(?=[^\W_]|[\"'“(\[{]|\s*\n|.*\bassistant\s*final)",
        re.DOTALL,
    )
    next_channel = re.compile(r"assistant(?:analysis|commentary|final)")


OWN_LABEL = re.compile(r"\A\s*assistant[ \t]*\n")
"""What is left of a header where a server removes its tokens (meta-pytorch/torchtune#1555)."""
REASONING_LABEL = re.compile(r"\A\s*thought[ \t]*\n")
"""What is left of Gemma 4's reasoning where a server removes its tokens.

Where the reasoning ends is lost (Blaizzy/mlx-vlm#1351, raullenchai/Rapid-MLX#447).
"""
BEGINNINGS = ("analysis", "commentary", "assistant", "thought")
"""The words with which a text begins whose special tokens were removed."""
EMPTY_TOKENS = re.compile(
    r"<(?:unused|extra_id_|reserved_|reserved_token_)\d{1,5}>|\[unused\d{1,4}\]"
    r"|<unk>|<mask>|<0x[0-9A-F]{2}>"
    r"|</?(?:tool_calls?|function_calls?)>|<function=|\[TOOL_CALLS\]",
    re.IGNORECASE,
)
"""Tokens that say nothing, and calls of tools that nobody offered, wherever they stand.

Source: software-mansion-labs/private-mind#342.
"""
STRIKE_TAG = re.compile(r"</?s\s?>", re.IGNORECASE)
"""A mark of Llama 2 that is HTML, too: behind other words it strikes out."""
ATTRIBUTES = r"(?:\s[^<>\n]{0,200})?"
"""What may stand in a tag behind its name."""


def pattern_of(mark: str) -> str:
    """Return the regular expression of a mark, with attributes in a tag and with blanks.

    Example:
        >>> re.fullmatch(pattern_of("<think>"), '<think mode="deep">') is not None
        True
        >>> re.fullmatch(pattern_of("<|im_start|> assistant"), "<|im_start|>assistant") is not None
        True
    """
    if mark == '<details type="reasoning">':
        return r"<details\b[^<>]{0,200}\btype\s{0,9}=\s{0,9}[\"']?reasoning\b[\"']?[^<>]{0,200}>"
    tag = re.fullmatch(r"<(/?)([\w:|]+)>", mark)
    if tag and not tag[2].startswith("|") and not tag[2].endswith("|"):
        attributes = r"\s?" if tag[1] else ATTRIBUTES
        return rf"<\s?{tag[1]}\s?{re.escape(tag[2])}{attributes}>"
    words = [re.escape(word).replace("'", "['’]") for word in mark.split(" ")]
    is_prose = words[0].startswith("Here")
    pattern = (r"\s{1,9}" if is_prose else r"\s{0,9}").join(words)
    if mark[-1].isalnum():
        pattern += r"(?!\w)"
    return pattern


class Forms:
    """The patterns of all forms: those of `FAMILIES`, and marks of reasoning that a user names.

    Attributes:
        pairs: the marks around reasoning, and then those around answers.
        reasoning: how many of the pairs are marks of reasoning.
        ends: the closing marks that also end a turn where nothing was opened.
        mark: any mark. The name of the last group is a word and a number: ``opening`` and
            ``closing`` for a mark of the pair with the number, ``own`` for a header of the model's
            own turn, ``other`` for that of another, ``end`` for the end of a turn, ``empty`` for a
            token that says nothing.
        mention: a mark that is only mentioned, alone in quotation marks or backticks.
        half_a_mention: an end that may become a mention.
        worded_begins: plain words with which reasoning begins at the beginning of a text.
        worded: such reasoning, up to the words that end it. Without these it is the answer.
        beginnings: words at the beginning of a text that may become marks.
    """

    def __init__(self, user_marks: Iterable[tuple[str, str]] = ()) -> None:
        reasoning = [Pair(opening, closing) for opening, closing in user_marks]
        answers: list[Pair] = []
        headers: dict[str, list[str]] = {"own": [], "other": [], "end": [], "empty": []}
        for family in FAMILIES:
            reasoning += family.reasoning
            # `ANSWER_TAGS` has the tags around answers.
            answers += [pair for pair in family.answer if not _is_tag(pair.opening)]
            headers["own"] += family.own
            headers["other"] += family.others
            headers["end"] += family.ends
            headers["empty"] += family.empty
        worded = [pair for pair in reasoning if pair.opening[0].isalpha()]
        signed = [pair for pair in reasoning if not pair.opening[0].isalpha()]
        self.pairs = signed + answers
        self.reasoning = len(signed)
        not_alone = {pair.closing for pair in self.pairs if not pair.alone}
        self.ends = not_alone.intersection(headers["end"])
        self._compile_marks(headers)
        self._compile_worded(worded)

    def _compile_marks(self, headers: dict[str, list[str]]) -> None:
        groups = []
        for number, pair in enumerate(self.pairs):
            groups.append(f"(?P<opening{number}>{pattern_of(pair.opening)})")
            groups.append(f"(?P<closing{number}>{pattern_of(pair.closing)})")
        for kind, marks in headers.items():
            patterns = [pattern_of(mark) for mark in marks]
            groups.append(f"(?P<{kind}0>{'|'.join(patterns)})")
        any_mark = "|".join(groups)
        first_signs = {"<", "["}
        for pair in self.pairs:
            first_signs |= {pair.opening[0], pair.closing[0]}
        first = "".join(re.escape(sign) for sign in sorted(first_signs))
        # Ten times as fast with its first characters ahead.
        self.mark = re.compile(f"(?=[{first}])(?:{any_mark})", re.IGNORECASE)
        unnamed = re.sub(r"\?P<\w+>", "?:", any_mark)
        quoted = rf"(?<![^\s(\[{{=:,`])[`\"'“‘«](?:{unnamed})(?:[\s.…]{{0,9}}(?:{unnamed}))?"
        self.mention = re.compile(rf"{quoted}[`\"'”’»](?!\w)", re.IGNORECASE)
        self.half_a_mention = re.compile(rf"{quoted}[`\"'”’»]?\Z", re.IGNORECASE)

    def _compile_worded(self, pairs: Sequence[Pair]) -> None:
        begin = "|".join(pattern_of(pair.opening) for pair in pairs)
        end = "|".join(pattern_of(pair.closing) for pair in pairs)
        self.worded_begins = re.compile(rf"\A\s*(?:{begin})", re.IGNORECASE)
        self.worded = re.compile(rf"\A\s*(?:{begin}).*?(?:{end})", re.IGNORECASE | re.DOTALL)
        self.beginnings = [pair.opening.casefold() for pair in pairs] + list(BEGINNINGS)


def _is_tag(mark: str) -> bool:
    return re.fullmatch(r"</?\w+>", mark) is not None


@functools.lru_cache(maxsize=64)
def forms(user_marks: tuple[tuple[str, str], ...] = ()) -> Forms:
    """Return the patterns of all forms, with the marks of reasoning that a user names."""
    return Forms(user_marks)


def is_mark(token: str, user_marks: tuple[tuple[str, str], ...] = ()) -> bool:
    """Whether a token of a tokenizer is a mark, or a part of one.

    Example:
        >>> is_mark("[/THINK]"), is_mark("<|im_middle|>"), is_mark("<unk>")
        (True, True, False)
    """
    word = token.strip().casefold()
    return forms(user_marks).mark.fullmatch(word) is not None or word in PARTS_OF_MARKS


def _parts_of_marks() -> frozenset[str]:
    """Return the tokens of marks that consist of several."""
    marks: list[str] = []
    for family in FAMILIES:
        for pair in (*family.reasoning, *family.answer):
            marks += [pair.opening, pair.closing]
        marks += family.own
    parts = set()
    for mark in marks:
        for word in mark.split(" "):
            if not word[0].isalpha():
                parts.add(word.casefold())
    return frozenset(parts)


PARTS_OF_MARKS = _parts_of_marks()
