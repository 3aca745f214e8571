"""A prompt that the server has cut is told, and other prompts aren't."""

import pickle
import warnings

import pytest
from chat_server import ask, said
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import Request
from pyterrier_ikat.llms.lengths import CutPromptWarning, Lengths

TEA = "I like tea with lemon. "
"""23 characters, 6 tokens of most models."""
CHINESE = "我喜欢喝柠檬茶。"
"""8 characters, 6 tokens of most models."""


def reading(window):
    """A server whose model reads the end of a prompt: a token for 4 characters of English, or for
    1.4 of Chinese."""

    def respond(body):
        text = body["messages"][0]["content"]
        tokens = len(text) / (4 if text.isascii() else 1.4)
        return said(usage=(min(int(tokens), window), 3))

    return respond


def told(made, *texts):
    """The warnings about texts that are asked one after the other."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made.ask(ask(*texts))
    return [str(one.message) for one in caught if one.category is CutPromptWarning]


@pytest.mark.parametrize("window", [512, 1024, 2048, 4096, 8192])
def test_a_prompt_of_which_a_fraction_was_read_is_named(model, server, window):
    server.respond = reading(window)
    (message,) = told(model("cache=none concurrency=1"), TEA, TEA * 14_000)
    assert f"answer of turn 1_2 ({window} tokens of 322000 characters)" in message
    assert "OLLAMA_CONTEXT_LENGTH" in message


@pytest.mark.parametrize("text", [TEA, CHINESE])
@pytest.mark.parametrize("turned", [False, True])
def test_two_prompts_of_different_length_with_one_count_are_told(model, server, text, turned):
    server.respond = reading(4096)
    prompts = [text * 1000, text * 1800]
    (message,) = told(
        model("cache=none concurrency=1"), *(reversed(prompts) if turned else prompts)
    )
    assert (
        f"turn {'1_1' if turned else '1_2'} (4096 tokens of {len(text) * 1800} characters)"
        in message
    )


def test_one_warning_names_the_turns_of_a_stage(model, server):
    server.respond = reading(4096)
    prompts = [TEA * 10_000, TEA * 10_001, TEA * 10_002]
    [message] = told(model("cache=none concurrency=1"), *prompts)
    assert "1_1 (4096 tokens" in message
    assert "1_2 (4096 tokens" in message
    assert "1_3 (4096 tokens" in message


def test_a_kept_answer_to_a_cut_prompt_is_told_again(model, server):
    server.respond = reading(4096)
    for _ in range(2):
        assert len(told(model(), TEA * 14_000)) == 1
    assert server.calls == 1


def test_a_streamed_answer_and_a_failed_one_are_told_too(model, server):
    server.script = [said("", usage=(2048, 3))]
    assert len(told(model("cache=none"), TEA * 5000)) == 1


@pytest.mark.parametrize("usage", [None, (0, 0), (1, 1), (10, 5), (255, 3)])
def test_a_server_that_counts_nothing_is_no_cutter(model, server, usage):
    server.respond = lambda body: said(usage=usage)
    assert told(model("cache=none concurrency=1"), TEA, TEA * 100, TEA * 14_000) == []


def test_a_count_that_short_prompts_cannot_have_is_not_told(model, server):
    server.respond = lambda body: said(usage=(1000, 3))
    assert not told(model("cache=none concurrency=1"), "tea", "rooibos tea", TEA * 3)


def test_tokens_of_the_providers_cache_were_read(model, server):
    answer = said(usage=(300, 3))
    answer.body["usage"] |= {"cache_read_input_tokens": 5000, "total_tokens": 303}
    server.script = [answer]
    assert told(model("cache=none"), TEA * 900) == []


@given(
    st.lists(
        st.tuples(st.sampled_from([TEA, CHINESE, "Какой чай? "]), st.integers(1, 900)),
        min_size=2,
        max_size=6,
    )
)
def test_prompts_that_are_read_whole_are_never_told(prompts):
    """By the number of tokens that a byte pair encoding gives them."""
    per_text = {TEA: 6, CHINESE: 6, "Какой чай? ": 5}

    class Counts:
        model_id = "counts"

        def generate(self, chats):
            class Said:
                text, completion_tokens, finish_reason, model = "fine", 1, "stop", "counts"

            outputs = []
            for chat in chats:
                said = Said()
                content = chat[0]["content"]
                for text, count in per_text.items():
                    if content.startswith(text):
                        said.prompt_tokens = count * content.count(text)
                outputs.append(said)
            return outputs

    assert told(ikat.llm(Counts(), cache="none"), *(text * times for text, times in prompts)) == []


def test_lengths_go_with_a_model_into_another_process(model):
    assert pickle.loads(pickle.dumps(model())).lengths.note(ask("a")[0], None) is None


@pytest.mark.parametrize("text", [(" " * 42 + "x = 1\n") * 2000, "-" * 60_000, "\n" * 60_000 + TEA])
def test_blanks_and_lines_of_dashes_have_few_tokens(model, server, text):
    server.respond = lambda body: said(
        usage=(max(300, len(body["messages"][0]["content"]) // 20), 3)
    )
    assert told(model("cache=none"), text) == []


def noted(*prompts, stage="answer"):
    """The turns that are told of prompts with these characters and counts of tokens."""
    lengths = Lengths()
    for number, (characters, tokens) in enumerate(prompts, 1):
        text = "ab" * (characters // 2)
        request = Request([{"role": "user", "content": text}], stage, f"1_{number}")
        lengths.note(request, tokens)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lengths.warn()
        lengths.warn()  # nothing is told twice
    told = " ".join(str(one.message) for one in caught)
    turns = [f"1_{number}" for number in range(1, len(prompts) + 1)]
    return [turn for turn in turns if f"{turn} (" in told]


@pytest.mark.parametrize(
    ("prompts", "told"),
    [
        ([(12 * 256, 256)], []),  # just twelve characters a token
        ([(12 * 256 + 2, 256)], ["1_1"]),
        ([(9000, 255)], []),  # too few tokens to be a window
        ([(9000, None)], []),
        ([(2000, 2001)], []),  # more tokens than bytes say nothing
        ([(2000, 2000), (3000, 2000)], ["1_2"]),  # a token for each byte is possible
        ([(4000, 1000), (6000, 1000)], ["1_2"]),  # half as long again, and equal
        ([(4000, 1000), (5998, 1000)], []),
        ([(6000, 1000), (4000, 1000)], ["1_1"]),
        ([(4000, 999), (6000, 999)], []),  # equal by chance
        ([(4000, 1000), (6000, 1001)], []),
        ([(4000, 1100), (6000, 1000), (6000, 1100)], ["1_3"]),
        ([(3000, 1000), (6000, 1001), (8000, 1001)], []),  # the first one had another count
        ([(9000, 1000), (4000, 1001), (3900, 1001)], []),
        ([(4000, 1000), (5000, 1000), (3000, 1000)], ["1_2"]),
        ([(4000, 1000), (5000, 1000), (4800, 1000)], []),
        ([(5000, 1000), (4000, 1000), (5900, 1000)], []),
        ([(5000, 1000), (4000, 1000), (6000, 1000)], ["1_3"]),
    ],
)
def test_a_cut_prompt_is_known_from_these_bounds_on(prompts, told):
    assert noted(*prompts) == told


def sent(text, tokens, lengths, stage="answer", qid="1_1", messages=1):
    chat = [{"role": "user", "content": text}] * messages
    lengths.note(Request(chat, stage, qid), tokens)


def told_by(lengths):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lengths.warn()
    shown = []
    for warning in caught:
        _, _, counts = str(warning.message).partition("by its own count: ")
        shown.append(counts.partition(";")[0])
    return shown


def test_each_stage_is_warned_once_with_its_turns_and_counts():
    lengths = Lengths()
    sent("ab" * 2000, 300, lengths, qid="1_1", messages=2)
    sent("ab" * 2500, 301, lengths, qid="1_2")
    sent("ab" * 2600, 302, lengths, qid="1_2")
    sent("ab" * 2500, 303, lengths, stage="rewrite")
    assert told_by(lengths) == [
        "answer of turn 1_1 (300 tokens of 8000 characters), 1_2 (302 tokens of 5200 characters)",
        "rewrite of turn 1_1 (303 tokens of 5000 characters)",
    ]
    assert told_by(lengths) == []


def test_no_messages_and_runs_of_signs_are_not_cut():
    lengths = Lengths()
    lengths.note(Request([], "answer", "1_1"), 300)
    sent("-" * 4000 + "ab" * 1798, 300, lengths)  # a run counts as one
    assert told_by(lengths) == []
    sent("-" * 4000 + "ab" * 1800, 300, lengths)
    sent("---" * 1 + "ab" * 1799, 300, lengths, qid="1_2")
    assert [text.count("1_") for text in told_by(lengths)] == [2]


def test_lengths_are_compared_in_bytes_and_told_in_characters():
    lengths = Lengths()
    sent("ab" * 1500, 1200, lengths, qid="1_1")
    sent("\u8336" * 1500, 1200, lengths, qid="1_2")
    assert told_by(lengths) == ["answer of turn 1_2 (1200 tokens of 1500 characters)"]
    sent("ab" * 1400, 1200, lengths, qid="1_3")  # shorter: the longest so far is cut
    assert told_by(lengths) == ["answer of turn 1_2 (1200 tokens of 1500 characters)"]


def test_what_was_told_here_is_not_told_in_another_process():
    lengths = Lengths()
    sent("ab" * 2500, 301, lengths)
    other = pickle.loads(pickle.dumps(lengths))
    assert told_by(other) == []
    sent("ab" * 2500, 301, other)
    assert len(told_by(other)) == len(told_by(lengths)) == 1


def test_more_tokens_than_characters_are_compared_too():
    lengths = Lengths()
    sent("\u8336" * 1000, 1500, lengths, qid="1_1")
    sent("\u8336" * 2000, 1500, lengths, qid="1_2")
    assert told_by(lengths) == ["answer of turn 1_2 (1500 tokens of 2000 characters)"]


def test_half_characters_have_a_length_as_well():
    lengths = Lengths()
    sent("a\ud800" * 2000, 300, lengths)
    assert told_by(lengths) == ["answer of turn 1_1 (300 tokens of 4000 characters)"]
