"""The forms of models.

Each row of the table read in its variants, whole and streamed, and the mark that is in no row.
"""

import re

import pytest
from chat_server import ask, said
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.forms import FAMILIES
from pyterrier_ikat.completions.reasoning import opening_mark, split_reasoning, unknown_mark
from pyterrier_ikat.llms import Request, StageError, llm
from pyterrier_ikat.llms.failures import OnlyReasoning, UnknownMark
from pyterrier_ikat.llms.hf import _decoded, _streamer, _unknown_tokens
from pyterrier_ikat.llms.request import Reading, Reply, read
from pyterrier_ikat.llms.streaming import Writing, seen_so_far

ANSWER = "Where does rooibos grow?"
THOUGHT = "The user means rooibos, from a dog owner."


def written(mark):
    """A mark as a model writes it."""
    return mark if mark[0].isalpha() else re.sub(r"(?<=>) | (?=<)", "", mark)


PAIRS = []
ENDS = []
HEADERS = []
for family in FAMILIES:
    for pair in family.reasoning:
        PAIRS.append((written(pair.opening), written(pair.closing), pair.alone))
    ENDS += map(written, family.ends)
    HEADERS += map(written, family.own)
WORDS = [pair for pair in PAIRS if pair[0][0].isalpha()]
MARKS = [pair for pair in PAIRS if pair not in WORDS]


def test_each_family_says_where_it_was_seen():
    assert all(family.seen and family.models for family in FAMILIES)


@pytest.mark.parametrize(("opening", "closing", "alone"), PAIRS)
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


@pytest.mark.parametrize(("opening", "closing", "alone"), MARKS)
def test_reasoning_without_an_end_is_told_and_a_mention_stays(opening, closing, alone):
    assert split_reasoning(f"{opening}\n{THOUGHT}").open
    mention = f'Models write "{opening}" first, and `{closing}` then.'
    assert split_reasoning(mention) == (mention, False)
    assert opening_mark(f"user: Which tea? {opening}\n") == opening
    assert opening_mark(f"{opening}\n\n{closing}\n\n") == ""


def test_words_that_end_no_reasoning_are_the_answer():
    said = "Here is my thought process: it names no farm. Score: 1"
    assert split_reasoning(said) == (said, False)
    assert split_reasoning("Here's my thought process: hm.\n\nHere is my response:\nMint.") == (
        "Mint.",
        False,
    )


@pytest.mark.parametrize("header", [*HEADERS, "<s>", "<bos>", "<|begin_of_text|>"])
def test_the_header_of_a_turn_is_no_text(header):
    assert split_reasoning(f"{header}\n{ANSWER}") == (ANSWER, False)


@pytest.mark.parametrize("end", ENDS)
def test_a_text_ends_where_its_turn_ends(end):
    assert split_reasoning(f"{ANSWER}{end}") == (ANSWER, False)
    assert split_reasoning(f"{ANSWER}{end}\n<|im_start|>user\nAnd mint?") == (ANSWER, False)


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
    st.sampled_from([f"{opening}\nhm{closing}\n" for opening, closing, _ in MARKS]),
    st.sampled_from([*ENDS, *HEADERS, "<s>", "<|im_start|>user\n", "[INST]", "<<SYS>>"]),
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


PONDER = "reasoning='<ponder> </ponder>'"


def test_a_kept_answer_is_read_again_without_a_call(server, model, tmp_path):
    server.respond = lambda body: said(f"<ponder>hm</ponder>{ANSWER}")
    priced = f"cache={tmp_path / 'c.sqlite'} price_in=1000000 price_out=1000000"
    first = model(priced)
    for number in range(2):  # the second time from the cache
        [failure] = first.ask(ask("a"))
        assert (type(failure), failure.kept, server.calls, number) == (UnknownMark, True, 1, number)
        assert "read without a call" in failure.reason
    paid = first.budget.spent
    assert paid > 0
    again = model(f"{priced} {PONDER}")
    [found] = again.ask(ask("a"))
    assert (found.text, found.cached, server.calls, again.budget.spent) == (ANSWER, True, 1, 0)
    assert again.peek(ask("a")[0]).text == ANSWER
    assert first.peek(ask("a")[0]) is None
    assert first.is_settled(ask("a", "b")) == [True, False]
    assert first.ledger.frame()[["calls", "failures"]].to_numpy().tolist() == [[1, 2]]


def test_how_answers_are_read_is_in_a_runs_identity_not_the_key(model):
    plain, named = model(), model(PONDER)
    assert plain != named
    assert plain.fingerprint() != named.fingerprint()
    assert ask("a")[0].key(plain.backend.identity) == ask("a")[0].key(named.backend.identity)


def test_the_option_is_one_of_objects_and_recordings(tmp_path):
    class Ponders:
        def generate(self, chats):
            return [f"<ponder>hm</ponder>{ANSWER}" for _ in chats]

    turn = ikat.conversation([{"role": "user", "content": "Where?"}])
    assert (
        ikat.Rewrite(llm(Ponders(), reasoning="<ponder> </ponder>"))(turn)["query"].item() == ANSWER
    )
    with pytest.raises(StageError, match="1 UnknownMark.*<ponder>"):
        ikat.Rewrite(llm(Ponders()))(turn)
    file = tmp_path / "recorded.jsonl"
    file.write_text(
        f'{{"qid": "1", "stage": "s", "completion": "<ponder>hm</ponder>{ANSWER}", "model": "m"}}\n'
    )
    request = Request([{"role": "user", "content": "Where?"}], "s", "1")
    assert llm(f"recorded:{file} {PONDER}").ask([request])[0].text == ANSWER
    [failure] = llm(f"recorded:{file}").ask([request])
    assert (type(failure), failure.kept) == (UnknownMark, True)


@pytest.mark.parametrize(
    "wrong", ["reasoning=ponder", "reasoning='<ponder>'", "reasoning='a b'", "reasoning="]
)
def test_an_option_that_names_no_pair_is_refused(wrong):
    with pytest.raises(
        ikat.UsageError, match="reasoning is wrong: give the opening and the closing mark"
    ):
        llm(f"openai:m {wrong}")


def test_a_stream_is_read_with_the_marks_that_a_user_names(server, model):
    told = []
    writing = Writing(told.append, Reading((("<ponder>", "</ponder>"),)))
    for sign in f"<ponder>hm</ponder>{ANSWER}":
        writing._next = 0
        writing.add(sign)
    assert told[-1] == ANSWER
    assert all(ANSWER.startswith(text) for text in told)


@pytest.fixture
def tokenizer():
    words = [
        "<unk>",
        "<s>",
        "</s>",
        "<pad>",
        "[PONDER]",
        "[/PONDER]",
        "<|channel>",
        "<channel|>",
        "<turn|>",
        "thought",
        "hm",
        "Where?",
        "Mint.",
    ]
    made = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    )
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=made, **special, additional_special_tokens=words[4:9]
    )


def test_tokens_are_decoded_with_marks_and_without_padding(tokenizer):
    row = tokenizer.convert_tokens_to_ids(
        ["<s>", "<|channel>", "thought", "hm", "<channel|>", "Where?", "<turn|>", "</s>", "<pad>"]
    )
    assert split_reasoning(_decoded(tokenizer, row)) == ("Where?", False)
    assert _unknown_tokens(tokenizer, row, ()) == ()


def test_a_special_token_in_no_table_is_a_failure_that_names_it(tokenizer):
    row = tokenizer.convert_tokens_to_ids(["[PONDER]", "hm", "[/PONDER]", "Where?"])
    reply = Reply(_decoded(tokenizer, row), special=_unknown_tokens(tokenizer, row, ()))
    assert read(reply).fault[0] is UnknownMark
    assert "[PONDER]" in read(reply).fault[1]
    named = Reading((("[PONDER]", "[/PONDER]"),))
    assert read(reply, named) == ("Where?", None)
    assert _unknown_tokens(tokenizer, row, named.named) == ()


def test_an_unknown_special_token_in_the_middle_is_told(tokenizer):
    row = tokenizer.convert_tokens_to_ids(["Mint.", "<unk>", "Where?"])
    reply = Reply(_decoded(tokenizer, row), special=_unknown_tokens(tokenizer, row, ()))
    assert (read(reply).fault[0], "<unk>" in read(reply).fault[1]) == (UnknownMark, True)


def test_a_special_token_that_looks_like_no_mark_is_told():
    """As a tokenizer has it; a text with the same words is an answer."""
    assert read(Reply("Mint. endofprompt Where?", special=("endofprompt",))).fault[0] is UnknownMark
    assert read(Reply("Mint. endofprompt Where?")) == ("Mint. endofprompt Where?", None)


def test_a_local_models_stream_shows_its_answer_alone(tokenizer, monkeypatch):
    import torch

    from pyterrier_ikat.llms import streaming

    monkeypatch.setattr(streaming, "PAUSE", -1e9)
    told = []
    streamer = _streamer(
        tokenizer, tokenizer.convert_tokens_to_ids(["Mint."]), Writing(told.append), ()
    )
    streamer.put(torch.tensor([tokenizer.convert_tokens_to_ids(["Mint."])]))
    for token in tokenizer.convert_tokens_to_ids(
        ["<|channel>", "thought", "hm", "<channel|>", "Where?", "Mint.", "</s>"]
    ):
        streamer.put(torch.tensor([token]))
    streamer.end()
    assert [text for text in told if text][-1] == "Where? Mint."
    assert all("Where? Mint.".startswith(text) for text in told)


def test_only_reasoning_is_a_failure_of_its_kind():
    for text in ("<mm:think>hm</mm:think>", "◁think▷hm", "<|im_start|>assistant\n<|im_end|>"):
        assert read(Reply(text)).fault[0] is OnlyReasoning
