"""Rewriting by T5 and BART: tiny random models, against the model asked directly."""

import pytest
from tiny_seq2seq import save_tiny_bart, save_tiny_t5

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import object_frame
from pyterrier_ikat.generate.rewrite import decode, load_seq2seq, seq2seq_input
from pyterrier_ikat.planning import Plan

HISTORY = [
    {"role": "user", "content": "which tea has no caffeine ?"},
    {"role": "assistant", "content": "rooibos has no caffeine"},
    {"role": "user", "content": "is mint tea green ?"},
    {"role": "assistant", "content": "mint is green"},
]


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return save_tiny_t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    return save_tiny_bart(tmp_path_factory.mktemp("bart"))


def turns(*questions, history=()):
    return object_frame(
        {
            "qid": [f"1_{number}" for number in range(len(questions))],
            "query": [f"query {number}" for number in range(len(questions))],
            "qutterance": list(questions),
            "qhistory": [list(history)] * len(questions),
        }
    )


class Silent:
    """A double of the model: write what a table says of each input, and remember the batches."""

    def __init__(self, monkeypatch, written=None):
        self.written = written or {}
        self.batches = []
        monkeypatch.setattr(
            "pyterrier_ikat.generate.rewrite.load_seq2seq", lambda model: (None, None)
        )
        monkeypatch.setattr("pyterrier_ikat.generate.rewrite.decode", self.decode)

    def decode(self, tokenizer, model, texts, max_length, num_beams):
        self.batches.append(list(texts))
        return [self.written.get(text, "") for text in texts]


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        (0, "which tea has no caffeine ? ||| is mint tea green ? ||| why ?"),
        (1, "which tea has no caffeine ? ||| is mint tea green ? ||| mint is green ||| why ?"),
        (
            2,
            "which tea has no caffeine ? ||| rooibos has no caffeine ||| "
            "is mint tea green ? ||| mint is green ||| why ?",
        ),
        (
            9,
            "which tea has no caffeine ? ||| rooibos has no caffeine ||| "
            "is mint tea green ? ||| mint is green ||| why ?",
        ),
    ],
)
def test_the_input_is_the_conversation_with_the_latest_responses(responses, expected):
    assert seq2seq_input(HISTORY, "why ?", responses) == expected
    assert seq2seq_input([], " why\nnot ? ", responses) == "why not ?"
    assert seq2seq_input([{"role": "system", "content": "Hi"}], "why ?", responses) == "why ?"


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_the_query_is_what_the_model_writes_for_each_turn_alone(kind, request):
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder = request.getfixturevalue(kind)
    asked = turns(
        "what is tea ?", "mint", "which one has caffeine and is green tea ?", history=HISTORY[:2]
    )
    rewritten = ikat.generate.Seq2SeqRewrite(folder, max_length=12, num_beams=3, batch_size=2)(
        asked
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    for question, query in zip(asked["qutterance"], rewritten["query"], strict=True):
        text = f"which tea has no caffeine ? ||| {question}"
        with torch.no_grad():
            alone = model.generate(
                **tokenizer(text, return_tensors="pt"),
                max_length=12,
                num_beams=3,
                do_sample=False,
                early_stopping=True,
            )
        assert query == (
            " ".join(tokenizer.decode(alone[0], skip_special_tokens=True).split()) or question
        )
    assert rewritten["qrewrite"].tolist() == rewritten["query"].tolist()
    assert rewritten["query_0"].tolist() == ["query 0", "query 1", "query 2"]
    assert rewritten["query"].nunique() == 3
    assert not set(rewritten["query"]) & set(asked["qutterance"])


def test_a_model_that_is_set_to_sample_is_not_sample_checksum(tmp_path):
    from transformers import GenerationConfig

    folder = save_tiny_bart(tmp_path)
    GenerationConfig.from_pretrained(folder, do_sample=True, temperature=5.0).save_pretrained(
        folder
    )
    operator = ikat.generate.Seq2SeqRewrite(folder, max_length=12, num_beams=1)
    written = {operator(turns("what is tea ?"))["query"][0] for _ in range(5)}
    assert len(written) == 1


def test_a_long_input_loses_its_beginning_and_keeps_the_question(bart):
    """The BART has room for 32 tokens: <s>, 30 words, </s>."""
    tokenizer, model = load_seq2seq(bart)
    end = "which one has caffeine ?"
    long = " ".join(["tea"] * 25 + [end])
    assert decode(tokenizer, model, ["green " * 200 + long], 8, 1) == decode(
        tokenizer, model, [long], 8, 1
    )
    assert (
        tokenizer("green " * 200 + long, truncation=True, max_length=32)["input_ids"]
        == tokenizer(long)["input_ids"]
    )


def test_an_input_has_the_length_of_its_tokenizer_and_any_text(bart, monkeypatch):
    tokenizer, model = load_seq2seq(bart)
    monkeypatch.setattr(tokenizer, "model_max_length", 8)  # <s>, 6 words, </s>
    end = "which one has caffeine tea ?"
    assert decode(tokenizer, model, ["green " * 15 + end], 8, 1) == decode(
        tokenizer, model, [end], 8, 1
    )
    assert len(decode(tokenizer, model, ["tea \ud83e"], 8, 1)) == 1


def test_the_output_has_at_most_max_length_tokens(bart):
    """The first token only starts the output, the last one ends it."""
    tokenizer, model = load_seq2seq(bart)
    asked = [seq2seq_input(HISTORY, "what is tea ?")]
    lengths = {}
    for room in (3, 5, 12):
        [text] = decode(tokenizer, model, asked, room, 2)
        lengths[room] = len(text.split())
    assert lengths[3] == 1
    assert 1 < lengths[5] <= 3
    assert 3 < lengths[12] <= 10
    assert (
        len(decode(tokenizer, model, ["what is tea ?"], 200, 2)) == 1
    )  # held to the positions that the model has


def test_distinct_inputs_decode_once_and_empty_output_falls_back(monkeypatch, caplog):
    model = Silent(monkeypatch, {"b": "which tea ?"})
    rewritten = ikat.generate.Seq2SeqRewrite("m", batch_size=2)(
        turns("b", "a longer one", "b", "middle")
    )
    assert rewritten["query"].tolist() == ["which tea ?", "a longer one", "which tea ?", "middle"]
    assert model.batches == [["a longer one", "middle"], ["b"]]
    assert "wrote nothing for 2 turns, so the question stays: 1_1, 1_3" in caplog.text


def test_systems_share_what_is_decoded_and_other_settings_do_not(monkeypatch):
    model = Silent(monkeypatch, {"tea ?": "green tea", "oats ?": "porridge"})
    for asked, expected in (
        (("tea ?",), ["green tea"]),
        (("oats ?", "tea ?"), ["porridge", "green tea"]),
    ):
        assert ikat.generate.Seq2SeqRewrite("m")(turns(*asked))["query"].tolist() == expected
    assert model.batches == [["tea ?"], ["oats ?"]]
    for other in (
        ikat.generate.Seq2SeqRewrite("n"),
        ikat.generate.Seq2SeqRewrite("m", max_length=9),
        ikat.generate.Seq2SeqRewrite("m", num_beams=1),
    ):
        other(turns("tea ?"))
    assert model.batches[2:] == [["tea ?"]] * 3


def test_a_model_that_has_changed_decodes_again(monkeypatch):
    model = Silent(monkeypatch, {"tea ?": "green tea"})
    for state in ("before", "before", "after"):
        monkeypatch.setattr(
            "pyterrier_ikat.generate.rewrite.model_state", lambda model, state=state: [state]
        )
        ikat.generate.Seq2SeqRewrite("m")(turns("tea ?"))
    assert model.batches == [["tea ?"], ["tea ?"]]


def test_a_model_that_cannot_be_loaded_is_named_with_what_to_do(tmp_path):
    for model in ("no/such-model", tmp_path):
        with pytest.raises(
            ikat.UsageError,
            match="can't load the sequence-to-sequence model "
            ".*give the folder of a downloaded model",
        ):
            ikat.generate.Seq2SeqRewrite(model)(turns("tea ?"))


def test_a_silent_model_that_reads_responses_leaves_the_question(monkeypatch):
    model = Silent(monkeypatch)
    asked = turns("why ?", history=HISTORY)
    out = ikat.generate.Seq2SeqRewrite("m", responses=1)(asked)
    assert model.batches == [[seq2seq_input(HISTORY, "why ?", 1)]]
    assert out[["query", "qrewrite"]].values.tolist() == [["why ?", "why ?"]]
    planned = ikat.generate.Seq2SeqRewrite("m").plan(asked, Plan("mine", set()))
    assert planned[["query", "qrewrite"]].values.tolist() == [["why ?", "why ?"]]


def test_another_model_in_the_same_folder_is_asked_anew(monkeypatch, tmp_path):
    model = Silent(monkeypatch)
    operator = ikat.generate.Seq2SeqRewrite(str(tmp_path))
    for config in ("{}", '{"d_model": 2}'):
        (tmp_path / "config.json").write_text(config)
        operator(turns("why ?"))
        operator(turns("why ?"))
    assert model.batches == [["why ?"], ["why ?"]]
