"""Tiny randomly initialised classifiers: the probabilities equal the model called directly."""

import re

import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
)

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.evaluation.response_judges import AnswerEquivalence, _input
from pyterrier_ikat.evaluation.responses import evaluate_responses

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "tea",
    "rooibos",
    "no",
    "caffeine",
    "has",
    "which",
    "green",
]


def save(folder, labels=2, head=True):
    words = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    special = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    PreTrainedTokenizerFast(
        tokenizer_object=words, model_input_names=inputs, **special
    ).save_pretrained(folder)
    torch.manual_seed(3)
    size = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 64,
    }
    config = BertConfig(vocab_size=len(WORDS), num_labels=labels, initializer_range=0.8, **size)
    (BertForSequenceClassification if head else BertModel)(config).save_pretrained(folder)
    return str(folder)


def turns(*rows):
    return pd.DataFrame(rows, columns=["qid", "query", "gold_answer", "qanswer"])


ROWS = [
    ("1_1", "which tea", "rooibos tea", "rooibos"),
    ("1_2", "has green tea caffeine", "no", "green tea has no caffeine no no no"),
]


def direct(folder, ids, segments):
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([segments])).logits[
            0
        ]


@pytest.mark.parametrize("labels", [1, 2])
def test_the_probability_of_response_then_gold_and_question(tmp_path, labels):
    folder = save(tmp_path, labels)
    found = AnswerEquivalence(folder).judge(turns(*ROWS))
    logits = direct(folder, [2, 5, 3, 5, 4, 3, 9, 4, 3], [0, 0, 0, 1, 1, 1, 1, 1, 1])
    expected = logits.softmax(-1)[1] if labels == 2 else logits[0].sigmoid()
    assert found[0].value == pytest.approx(float(expected), abs=1e-5)
    assert found[
        0
    ].reason == f"{folder} gives equivalence the probability {found[0].value:.4f}".replace(
        "0.", "."
    )
    assert found[0].value != pytest.approx(found[1].value, abs=1e-3)


def test_the_question_outlives_the_cut(tmp_path):
    folder = save(tmp_path)
    long = turns(("1_1", "which tea", "rooibos " * 50, "green " * 50))
    found = AnswerEquivalence(folder, max_length=16).judge(long)[0]
    # 16 tokens: 3 special, one separator, two of the question, five of each text
    ids = [2, *[10] * 5, 3, *[5] * 5, 3, 9, 4, 3]
    logits = direct(folder, ids, [0] * 7 + [1] * 9)
    assert found.value == pytest.approx(float(logits.softmax(-1)[1]), abs=1e-5)
    assert found.reason.endswith(", texts cut")


def test_a_long_question_leaves_room_for_both_texts(tmp_path):
    """The question is the manual rewrite."""
    folder = save(tmp_path)
    long = turns(("1_1", "no", "rooibos " * 50, "green " * 50))
    long = long.assign(qresolved="which tea " * 5)
    found = AnswerEquivalence(folder, max_length=16).judge(long)[0]
    # 16 tokens: 3 special, one separator, a quarter of the question, four of each text
    ids = [2, *[10] * 4, 3, *[5] * 4, 3, *[9, 4] * 2, 3]
    logits = direct(folder, ids, [0] * 6 + [1] * 10)
    assert found.value == pytest.approx(float(logits.softmax(-1)[1]), abs=1e-5)


def test_texts_are_cut_at_the_positions_of_the_network(tmp_path):
    folder = save(tmp_path)  # of 64 positions
    long = turns(("1_1", "which tea", "rooibos " * 90, "green " * 90))
    found = AnswerEquivalence(folder).judge(long)[0]
    expected = AnswerEquivalence(folder, max_length=64).judge(long)[0]
    assert found == expected
    assert found.reason.endswith(", texts cut")


def test_in_evaluation_nothing_is_loaded_where_nothing_is_asked():
    frame = turns(*ROWS)
    judged = evaluate_responses(
        frame.drop(columns="qanswer"), frame[:0], [AnswerEquivalence("no/such/model")]
    )
    assert judged["outcome"].tolist() == ["no response"] * 2


def test_models_that_cannot_judge(tmp_path):
    with pytest.raises(
        UsageError, match="was never trained to classify, and would judge by chance"
    ):
        AnswerEquivalence(save(tmp_path / "headless", head=False)).judge(turns(*ROWS))
    with pytest.raises(UsageError, match="has 3 labels: answer equivalence needs one, or two"):
        AnswerEquivalence(save(tmp_path / "three", labels=3)).judge(turns(*ROWS))
    with pytest.raises(UsageError, match="can't load the answer equivalence model 'no/such/model'"):
        AnswerEquivalence("no/such/model").judge(turns(*ROWS))
    with pytest.raises(UsageError, match="no column query in the turns for answer equivalence"):
        AnswerEquivalence(str(tmp_path / "three")).judge(turns(*ROWS).drop(columns="query"))


def test_a_cut_question_is_told_and_a_fitting_text_is_whole(tmp_path):
    folder = save(tmp_path)
    judge = AnswerEquivalence(folder, max_length=16)
    # a quarter of 16 is for the question: of four tokens, and of five
    asked = [
        ("1_1", "which tea " * 2, "tea", "tea"),
        ("1_2", "which tea " * 2 + "no", "tea", "tea"),
    ]
    fits, cut = judge.judge(turns(*asked))
    assert not fits.reason.endswith("cut")
    assert cut.reason.endswith(", texts cut")
    # 3 special, one separator, one of the question: 11 of both texts, of which one may take more
    for response, is_cut in ((10, False), (11, True)):
        [found] = judge.judge(turns(("1_1", "tea", "tea", " ".join(["green"] * response))))
        assert found.reason.endswith("cut") is is_cut
        [found] = judge.judge(turns(("1_1", "tea", " ".join(["green"] * response), "tea")))
        assert found.reason.endswith("cut") is is_cut


class Words:
    """A tokenizer of words between blanks, with two special tokens for a pair."""

    def __init__(self, separator):
        self.sep_token = separator

    def num_special_tokens_to_add(self, pair=False):
        return 2 if pair else 1

    def __call__(self, text, **_options):
        spans = [match.span() for match in re.finditer(r"\S+", text)]
        return {"offset_mapping": spans}


@pytest.mark.parametrize(
    ("texts", "length", "first", "second", "is_cut"),
    [
        # of 12 tokens 3 are special or the separator; the question has 1 to 3, the rest is shared
        (("a b", "c d", "q"), 12, "a b", "c d SEP q", False),
        (("a b", "c d", "q r s t"), 12, "a b", "c d SEP q r s", True),
        (("a b c d e f g h", "z", "q"), 12, "a b c d e f g", "z SEP q", True),
        (("z", "a b c d e f g h", "q"), 12, "z", "a b c d e f g SEP q", True),
        (("a b c d e f", "u v w x y z", "q r"), 12, "a b c", "u v w SEP q r", True),
        (("a b c d e f", "u v", "q"), 12, "a b c d e f", "u v SEP q", False),
    ],
    ids=["all", "question", "response", "gold", "both", "just"],
)
def test_texts_share_the_length_that_the_question_leaves(texts, length, first, second, is_cut):
    for separator in ("SEP", None):
        pair, cut = _input(Words(separator), *texts, length)
        assert pair == {"text": first, "text_pair": second.replace("SEP", separator or "")}
        assert cut is is_cut
