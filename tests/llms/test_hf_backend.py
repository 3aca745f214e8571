"""The backend of local models by itself: identity, groups of requests, tokens, parameters."""

import pickle
import threading
from types import SimpleNamespace

import pytest
import torch
from chat_server import ask
from jinja2 import TemplateError
from tiny_model import TEMPLATE, save_tiny_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pyterrier_ikat.completions.reasoning import split_reasoning
from pyterrier_ikat.events import AskerLeft, asked_by
from pyterrier_ikat.llms import Reply
from pyterrier_ikat.llms.failures import BadRequest, TooLong, Unanswered, UnknownMark
from pyterrier_ikat.llms.hf import (
    HFBackend,
    _decoded,
    _decoding,
    _silent,
    _streamer,
    _tokens,
    _unknown_tokens,
)
from pyterrier_ikat.llms.request import Reading, read
from pyterrier_ikat.llms.streaming import Writing

(REQUEST,) = ask("tea")


def test_a_model_of_the_hub_is_known_by_name_and_parameters():
    plain = HFBackend("org/name")
    assert plain.identity == {
        "provider": "hf",
        "model": "org/name",
        "params": {"max_tokens": 1024},
    }
    assert (plain.model, plain.device, plain.batch_size) == ("org/name", None, 8)
    full = HFBackend("org/name", params={"max_tokens": 5, "seed": 1}, device="cpu", batch_size=2)
    assert full.identity["params"] == {"max_tokens": 5, "seed": 1}
    assert (full.device, full.batch_size) == ("cpu", 2)


def test_a_folder_is_known_by_its_path_and_files(tmp_path, monkeypatch):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.safetensors").write_bytes(b"weights")
    monkeypatch.chdir(tmp_path)
    here = HFBackend("m")
    assert (here.model, here.identity["model"]) == ("m", str(tmp_path / "m"))
    assert here.identity["files"] == HFBackend(str(tmp_path / "m")).identity["files"]
    assert len(bytes.fromhex(here.identity["files"])) >= 8


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "no temperature above 0"),
        ({"temperature": 0}, "no temperature above 0"),
        ({"temperature": 0.1}, ""),
    ],
)
def test_samples_repeat_without_a_temperature(params, told):
    assert HFBackend("m", params=params).repeats(3) == told


@pytest.mark.parametrize(
    ("params", "decoding"),
    [
        ({"top_p": 0.5, "top_k": 3}, (False, None, None, None)),
        ({"temperature": 0, "top_p": 0.5}, (False, None, None, None)),
        ({"temperature": 0.7}, (True, 0.7, 1.0, 0)),
        ({"temperature": 0.7, "top_p": 0.5, "top_k": 3}, (True, 0.7, 0.5, 3)),
    ],
)
def test_decoding_is_greedy_without_a_temperature(params, decoding):
    names = ("do_sample", "temperature", "top_p", "top_k")
    assert _decoding(params) == dict(zip(names, decoding, strict=True))


class Groups(HFBackend):
    """Answers each request with its turn, and keeps what is generated together."""

    def _generate(self, requests, write=None):
        self.groups.append([request.qid for request in requests])
        if write is not None:
            write("seen")
        return [Reply(request.qid) for request in requests]


def grouped(params, *of_requests):
    """The groups of requests with these parameters of their own, and the replies."""
    backend = Groups("m", params=params)
    backend.groups = []
    requests = []
    for number, own in enumerate(of_requests, 1):
        *_, request = ask(*["tea"] * number, params=own)
        requests.append(request)
    return backend.groups, [reply.text for reply in backend.complete(requests)]


@pytest.mark.parametrize(
    ("params", "own", "groups"),
    [
        ({}, [{}, {}, {}], [["1_1", "1_2", "1_3"]]),
        ({}, [{"max_tokens": 5}, {}, {"max_tokens": 5}], [["1_1", "1_3"], ["1_2"]]),
        ({}, [{"max_tokens": 1024}, {}], [["1_1", "1_2"]]),
        ({"seed": 1, "temperature": 1}, [{}, {}], [["1_1"], ["1_2"]]),
        ({"seed": 1}, [{}, {}], [["1_1", "1_2"]]),
        ({"temperature": 1}, [{}, {}], [["1_1", "1_2"]]),
        ({"temperature": 1}, [{"seed": 0}, {}, {"seed": 0}], [["1_1"], ["1_2"], ["1_3"]]),
        ({"a": 1}, [{"b": 2}, {"b": 2, "a": 1}], [["1_1", "1_2"]]),
    ],
)
def test_requests_of_equal_parameters_are_generated_together(params, own, groups):
    turns = [f"1_{number}" for number in range(1, len(own) + 1)]
    assert grouped(params, *own) == (groups, turns)


def test_one_request_is_streamed():
    backend = Groups("m")
    seen = []
    backend.groups = []
    assert backend.stream(REQUEST, seen.append) == Reply("1_1")
    assert (backend.groups, seen) == ([["1_1"]], ["seen"])


class WordTokenizer:
    """A tokenizer of words: the special ones are in angle brackets."""

    bos_token_id, eos_token_id, pad_token_id = 0, 1, None
    all_special_ids = (0, 1, 2, 3)
    words = ("<s>", "</s>", "<think>", "<odd>", "tea", "mint")

    def __init__(self, template=None, error=None):
        self.chat_template, self.error, self.asked = template, error, []

    def apply_chat_template(self, messages, **options):
        if self.error is not None:
            raise self.error
        self.asked.append(options)
        return " ".join(message["content"] for message in messages)

    def __call__(self, text, add_special_tokens):
        start = [0] if add_special_tokens else []
        return {"input_ids": start + [4] * len(text.split())}

    def decode(self, tokens, skip_special_tokens):
        assert not skip_special_tokens
        return " ".join(self.words[token] for token in tokens)

    def convert_ids_to_tokens(self, token):
        return self.words[token]


def test_tokens_that_begin_end_and_fill_up_are_not_seen():
    tokenizer = WordTokenizer()
    assert _silent(tokenizer) == {0, 1}
    assert _decoded(tokenizer, [0, 2, 4, 3, 5, 1, 1]) == "<think> tea <odd> mint"
    assert _unknown_tokens(tokenizer, [0, 3, 2, 4, 3, 1], ()) == ("<odd>",)
    assert _unknown_tokens(tokenizer, [3, 4], (("<odd>", "</odd>"),)) == ()
    tokenizer.pad_token_id = 5
    assert _silent(tokenizer) == {0, 1, 5}
    assert _decoded(tokenizer, [4, 5, 5]) == "tea"


@pytest.mark.parametrize(
    ("words", "room", "tokens"),
    [(3, 3, [4, 4, 4]), (3, 2, "3 tokens, and the model has room for 2")]
    + [(1, -5, "1 tokens, and the model has room for 0")],
)
def test_a_prompt_of_a_template_fits_or_is_too_long(words, room, tokens):
    tokenizer = WordTokenizer("a template")
    found = _tokens(tokenizer, ask("tea " * words)[0], room)
    assert tokenizer.asked == [{"add_generation_prompt": True, "tokenize": False}]
    if isinstance(tokens, list):
        assert found == tokens
    else:
        assert (type(found), found.stage, found.qid) == (TooLong, "answer", "1_1")
        assert found.reason == f"the prompt has {tokens}"
        assert found.unanswered is Unanswered.UNSENT


def test_a_prompt_without_a_template_is_plain_text():
    assert _tokens(WordTokenizer(), REQUEST, 99) == [0, 4, 4, 4]  # "user: tea", "assistant:"


def test_a_template_that_rejects_a_chat_fails_its_turn():
    found = _tokens(WordTokenizer("a template", TemplateError("no system role")), REQUEST, 99)
    assert (type(found), found.qid, found.unanswered) == (BadRequest, "1_1", Unanswered.UNSENT)
    assert found.reason == "the model's chat template rejects the messages: no system role"


@pytest.mark.parametrize(
    ("row", "text", "finish", "written"),
    [
        ([4, 5, 1, 4], "tea mint", "stop", 3),
        ([4, 5], "tea mint", "length", 2),
        ([1], "", "stop", 1),
        ([], "", "length", 0),
    ],
)
def test_a_reply_ends_at_the_first_end(row, text, finish, written):
    backend = HFBackend("m")
    tokenizer = SimpleNamespace(
        decode=lambda tokens, **_: " ".join(WordTokenizer.words[token] for token in tokens),
        all_special_ids=(0, 1, 2, 3),
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    reply = backend._reply(tokenizer, [4] * 20, row, {1})
    assert reply == Reply(text, "m", finish, 20, written, special=())
    open_reasoning = backend._reply(tokenizer, [4, 2], [5, 1], {1})
    assert open_reasoning.text == "<think>mint"
    far_away = backend._reply(tokenizer, [2, *[4] * 16], [5, 1], {1})
    assert far_away.text == "mint"
    tokenizer.convert_ids_to_tokens = WordTokenizer.words.__getitem__
    assert backend._reply(tokenizer, [4], [3, 5, 1, 3], {1}).special == ("<odd>",)
    backend.reasoning = (("<odd>", "</odd>"),)
    named = backend._reply(tokenizer, [4, 3], [5, 3, 1], {1})
    assert (named.text, named.special) == ("<odd>mint <odd>", ())


def test_what_is_streamed_has_the_marks_of_reasoning():
    def decode(tokens, skip_special_tokens=False):
        words = [WordTokenizer.words[int(token)] for token in tokens]
        assert not skip_special_tokens
        return "".join(f"{word} " for word in words)

    parts = []
    tokenizer = SimpleNamespace(decode=decode, bos_token_id=0, eos_token_id=1, pad_token_id=1)
    streamer = _streamer(tokenizer, [4, 2], SimpleNamespace(add=parts.append), ())
    streamer.put(torch.tensor([[4, 2]]))
    for token in (5, 3, 4, 1):
        streamer.put(torch.tensor([token]))
    streamer.end()
    assert "".join(parts).split() == ["<think>mint", "<odd>", "tea"]


def test_who_left_meanwhile_is_generated_nothing():
    left = threading.Event()
    left.set()
    with asked_by(left), pytest.raises(AskerLeft):
        HFBackend("not/loaded").complete([REQUEST])


def test_a_folder_that_ends_with_gguf_and_a_device_are_taken(tmp_path):
    folder = tmp_path / "tiny.gguf"
    backend = HFBackend(str(save_tiny_model(folder, TEMPLATE)), device="meta")
    tokenizer, model = backend._load()
    assert model.device.type == "meta"
    assert backend._load()[1] is model
    assert tokenizer.pad_token == "<pad>"
    assert pickle.loads(pickle.dumps(backend))._loaded is None


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
