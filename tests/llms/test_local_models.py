"""A real, tiny model: through transformers in this process, and through ``transformers serve`` over
HTTP."""

import asyncio
import contextlib
import json
import shutil
import socket
import sys
import threading
import time

import pytest
import torch
from chat_server import ask
from tiny_model import ROOM, TEMPLATE, WORDS, save_tiny_model
from transformers import AutoTokenizer

from pyterrier_ikat.completions.reasoning import without_reasoning
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Request, llm, streaming
from pyterrier_ikat.llms.failures import BadRequest, CutOff
from pyterrier_ikat.llms.model import OtherModelWarning


@pytest.fixture(scope="module")
def templated(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("templated"), TEMPLATE)


def texts(model, *prompts, **kwargs):
    return [completion.text for completion in model.ask(ask(*prompts, **kwargs))]


def test_a_batch_of_chats_of_different_lengths(templated):
    model = llm(f"hf:{templated} max_tokens=8 cache=none")
    short, long, red = model.ask(ask("tea", "which which which tea", "green"))
    assert (short.text, long.text) == ("drink rooibos", "drink rooibos")
    assert (short.model, short.finish_reason, short.prompt_tokens, short.completion_tokens) == (
        str(templated),
        "stop",
        3,
        3,
    )
    assert long.prompt_tokens == 6
    assert str(red) == "answer of turn 1_3: the completion is empty"


def test_words_are_told_while_they_are_generated(templated, monkeypatch):
    monkeypatch.setattr(streaming, "PAUSE", -1e9)
    told, backend = [], llm(f"hf:{templated} max_tokens=8 cache=none").backend
    (whole,) = backend.complete(ask("tea"))
    assert backend.stream(*ask("tea"), told.append) == whole
    assert told == ["drink", "drink rooibos"]


def test_named_reasoning_is_not_shown_while_it_is_generated(templated, monkeypatch):
    monkeypatch.setattr(streaming, "PAUSE", -1e9)
    told, backend = [], llm(f"hf:{templated} max_tokens=8 cache=none").backend
    backend.reasoning = (("drink", "rooibos"),)
    assert backend.stream(*ask("tea"), told.append).text == "drink rooibos"
    assert "".join(told).strip() == ""


def test_a_model_without_a_template_gets_plain_text(tmp_path):
    model = llm(f"hf:{save_tiny_model(tmp_path)} max_tokens=4 cache=none")
    backend = model.backend
    tokenizer, _ = backend._load()
    (outcome,) = backend.complete(ask("tea"))
    assert not tokenizer.chat_template
    assert outcome.prompt_tokens == len(["user", ":", "tea", "assistant", ":"])


def test_endless_output_is_cut_off_and_long_prompts_are_refused(templated):
    outcomes = llm(f"hf:{templated} max_tokens=5 cache=none").ask(ask("on", "tea " * ROOM, "tea"))
    assert [type(outcome).__name__ for outcome in outcomes] == ["CutOff", "TooLong", "Completion"]
    assert isinstance(outcomes[0], CutOff)
    assert isinstance(outcomes[1], BadRequest)
    assert f"the prompt has {ROOM + 2} tokens, and the model has room for {ROOM - 5}" in str(
        outcomes[1]
    )


def test_a_chat_that_the_template_rejects_fails_its_turn(templated):
    rejected = Request([{"role": "system", "content": "tea"}], "answer", "1_2")
    good, bad = llm(f"hf:{templated} max_tokens=5 cache=none").ask([*ask("tea"), rejected])
    assert good.text == "drink rooibos"
    assert "chat template rejects the messages: no system role" in str(bad)


def test_samples_differ_by_number_and_are_repeated_by_seed(templated):
    spec = f"hf:{templated} max_tokens=5 temperature=1 seed=7 cache=none"
    requests = [ask("colour", sample=sample)[0] for sample in range(12)]
    before = torch.get_rng_state()
    first = [completion.text for completion in llm(spec).ask(requests)]
    assert torch.equal(torch.get_rng_state(), before)  # other work draws as without it
    backwards = [completion.text for completion in llm(spec).ask(requests[::-1])]
    assert first == backwards[::-1]
    assert {*first} == {"red", "green", "blue"}
    assert texts(llm(f"hf:{templated} max_tokens=5 temperature=1 top_k=1 cache=none"), "tea") == [
        "drink rooibos"
    ]


def test_reasoning_is_seen_by_special_tokens_or_prompt_marks(templated):
    tokenizer = AutoTokenizer.from_pretrained(templated)
    tokenizer.add_special_tokens({"additional_special_tokens": ["[THINK]", "[/THINK]"]})
    begin, end = tokenizer.convert_tokens_to_ids(["[THINK]", "[/THINK]"])
    drink, rooibos, red, stop = tokenizer.convert_tokens_to_ids(["drink", "rooibos", "red", "</s>"])
    backend = llm(f"hf:{templated} cache=none").backend
    for prompt, row, answer in (
        ([drink], [begin, red, end, rooibos, stop], "rooibos"),
        ([drink, begin], [red, end, rooibos, stop], "rooibos"),
        ([drink, begin], [red, rooibos, stop], ""),
        ([begin, red, end], [rooibos, stop], "rooibos"),
    ):
        assert without_reasoning(backend._reply(tokenizer, prompt, row, {stop}).text) == answer


def test_requests_of_different_length_limits_share_an_ask(templated):
    model = llm(f"hf:{templated} max_tokens=8 cache=none")
    long, short = model.ask([*ask("tea"), *ask("tea", params={"max_tokens": 1})])
    assert long.text == "drink rooibos"
    assert isinstance(short, CutOff)


def test_a_tokenizer_without_a_padding_token_pads_all_the_same(templated, tmp_path):
    folder = shutil.copytree(templated, tmp_path / "unpadded")
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).exists():  # newer versions of transformers write only the first
            settings = json.loads((folder / name).read_text())
            settings.pop("pad_token", None)
            (folder / name).write_text(json.dumps(settings))
    model = llm(f"hf:{folder} max_tokens=8 cache=none")
    assert texts(model, "tea", "which which which tea") == ["drink rooibos", "drink rooibos"]
    assert model.backend._load()[0].pad_token == "</s>"


def test_without_transformers_the_install_line_is_named(templated, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        UsageError,
        match=r"the language model .* needs transformers: pip install 'pyterrier_ikat\[rank\]'",
    ):
        llm(f"hf:{templated} cache=none").ask(ask("tea"))


def test_no_model_is_named(tmp_path):
    with pytest.raises(
        UsageError,
        match=r"can't load the language model .*: give the folder of a downloaded model, or a name",
    ):
        llm(f"hf:{tmp_path} cache=none").ask(ask("tea"))


@contextlib.contextmanager
def served(model):
    """The address of ``transformers serve``, in a thread of this process, which has imported most
    of what it needs."""
    from transformers.cli.serve import Serve

    class Served(Serve):
        def start_server(self):
            self._thread = threading.Thread(target=lambda: asyncio.run(self.server.serve()))
            self._thread.start()

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Served(str(model), host="127.0.0.1", port=port, device="cpu", non_blocking=True)
    try:
        deadline = time.monotonic() + 120
        while not server.server.started:
            assert time.monotonic() < deadline, (
                "transformers serve did not start within 120 seconds"
            )
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill_server()


def test_a_real_model_behind_a_real_server(templated):
    with served(templated) as url:
        model = llm(f"openai:{templated} base_url={url} temperature=0 max_tokens=8")
        with pytest.warns(OtherModelWarning, match="@main' answers instead of "):
            tea, on = model.ask(ask("which tea", "on"))
        model.close()
        streaming, told = (
            llm(f"openai:{templated} base_url={url} temperature=0 max_tokens=8 cache=none").backend,
            [],
        )
        reply = streaming.stream(*ask("which tea"), told.append)
        streaming.close()
    assert (reply.text, reply.finish_reason, reply.prompt_tokens, reply.completion_tokens) == (
        "drink rooibos",
        "stop",
        4,
        3,
    )
    assert "drink rooibos".startswith(told[0])
    assert tea.text == "drink rooibos"
    assert (tea.finish_reason, tea.prompt_tokens) == ("stop", 4)
    assert isinstance(on, CutOff)


def test_a_gguf_file_in_capitals_needs_its_package_too(tmp_path, monkeypatch):
    file = tmp_path / "tiny.GGUF"
    file.write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UsageError, match="needs gguf: pip install gguf"):
        llm(f"hf:{file} cache=none").ask(ask("a"))


def test_a_gguf_file_is_known_by_its_state_and_needs_its_package(tmp_path, monkeypatch):
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    first = llm(f"hf:{file}")
    file.write_bytes(b"GGUF, trained further")
    assert first != llm(f"hf:{file}") == llm(f"hf:{tmp_path}/./tiny.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(
        UsageError, match=r"the language model '.*tiny.gguf' needs gguf: pip install gguf"
    ):
        llm(f"hf:{file} cache=none").ask(ask("a"))


@pytest.mark.parametrize(
    ("ends", "text", "tokens"),
    [
        (1, "drink rooibos", 3),
        (WORDS.index("rooibos"), "drink", 2),
        ([1, WORDS.index("rooibos")], "drink", 2),
        ([WORDS.index("drink"), 1], None, None),
        (None, "drink rooibos", 3),
    ],
)
def test_a_reply_ends_at_each_end_token_of_the_model(templated, tmp_path, ends, text, tokens):
    folder = shutil.copytree(templated, tmp_path / "m")
    config = json.loads((folder / "generation_config.json").read_text())
    config["eos_token_id"] = ends
    (folder / "generation_config.json").write_text(json.dumps(config))
    (reply,) = llm(f"hf:{folder} max_tokens=8 cache=none").ask(ask("tea"))
    if text is None:
        assert "the completion is empty" in str(reply)
    else:
        assert (reply.text, reply.finish_reason) == (text, "stop")
        assert reply.completion_tokens == tokens
