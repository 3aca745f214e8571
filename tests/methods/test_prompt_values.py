"""Each prompt as sent: every value that a paper puts into it, in the paper's order.

Every text of a turn, and every completion, has a word of its own here. What the model is sent is
told by these words, and compared with the table below. The paper, its section or its file is named
at the top of each template.
"""

import functools
import re

import pyterrier as pt
import pytest
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS, find

TABLE = """
answer                                   : persona conversation question
answer mq4cs_ans mq4cs_ans:n=1 gtr_gpt gtr_claude gtr : 200 persona conversation question
answer chiq_ad : 30 persona utterance1 response1 utterance2 expanded shortened
answer_llama                             : persona last_response_conversation question
answer_one_shot_llama                    : chosen last_response_conversation question
clarify                                  : chosen summed_conversation question
condense_passages : system passage4-7 250 conversation question \
| system passage8-12 250 conversation question
decide                                   : passage1-5 persona conversation question
expand_response                          : conversation response2
expand_response_personal                 : system persona conversation response2
guess_answer                             : system 20 persona conversation question
passage_queries_article : 10 chosen clarified | 10 statement1 clarified | 10 statement3 clarified
passage_queries_long                     : 10 chosen summed_conversation question
passage_queries_short                    : chosen 5 summed_conversation question
passage_queries_styled                   : 10 chosen summed_conversation question
preferences : system persona utterance1 response1 utterance2 expanded cleared
queries                                  : 5 persona conversation question
queries gpt4qr_bm25_qd1 mq4cs:n=1        : 1 persona conversation question
queries mq4cs:n=4                        : 4 persona conversation question
queries_given_answer                     : persona conversation question answered 5
queries_given_answer mq4cs_ans gtr_gpt gtr_claude gtr : 200 persona conversation question answered 5
queries_given_answer mq4cs_ans:n=1       : 200 persona conversation question answered 1
queries_given_answer_llama               : 5 persona last_response_conversation question answered
queries_given_other_answer               : 5 persona conversation question answered
queries_given_other_answer_llama         : 5 persona last_response_conversation question answered
queries_llama                            : 5 persona last_response_conversation question
queries_statement                        : statement1 shortened | statement3 shortened
queries_statement rtg_manual             : statement1 question | statement3 question
reformulate_queries                      : system 200 5 conversation question
reformulate_queries ptkb_all_queries     : system 200 5 persona conversation question
reformulate_queries ptkb_human_queries   : system 200 5 statement2 conversation question
reformulate_queries ptkb_str_queries     : system 200 5 chosen conversation question
reformulate_rewrite                      : system 200 conversation question
reformulate_rewrite ptkb_all             : system 200 persona conversation question
reformulate_rewrite ptkb_human           : system 200 statement2 conversation question
reformulate_rewrite ptkb_str             : system 200 chosen conversation question
reformulate_rewrite ptkb_statement       : system 200 statement1 conversation question
reformulate_select                       : system 200 persona conversation question
rerank_llama                             : rewritten passage
respond                                  : passage1-5 200 persona conversation question
respond gtr_gpt gtr_claude gtr           : passage1-5 200 chosen conversation question
respond cfda_auto cfda_generation_only : passage1-3 condensed condensed 250 chosen conversation \
question
respond generation_only                  : passage1-5 250 persona conversation question
respond rali_fusion3                     : passage1-3 220 persona conversation question
respond_passages_only                    : 300 summed_conversation chosen passage1-3 clarified
respond_passages_only short_long_2 short_long_3 : 300 summed_conversation chosen passage1-3 question
respond raguteam                         : passage1-10 250 persona conversation question
respond_passages_only raguteam           : 250 conversation persona passage1-10 question
respond_suggested                        : suggested passage1-5 persona conversation shortened
respond_suggested rtg_manual             : suggested passage1-5 persona conversation question
rewrite                                  : persona conversation question
rewrite_and_answer                       : persona conversation question
rewrite_and_answer_without_persona       : conversation question
rewrite_by_level                         : persona conversation question
rewrite_clear                            : system persona conversation question
rewrite_enhanced                         : persona summed shortened answered
rewrite_llama                            : persona conversation question
rewrite_personal : system persona utterance1 response1 utterance2 expanded cleared guessed preferred
rewrite_short                            : question conversation
statements_copies                        : persona conversation question
statements_ids                           : conversation question persona
statements_ids rtg                       : shortened persona
statements_ids rtg_manual                : question persona
statements_scores                        : persona summed_conversation question
statements_scores_suggested              : persona summed_conversation question suggested
suggest                                  : conversation shortened 300
suggest rtg_manual                       : conversation question 300
suggest_context                          : summed_conversation question
summarise                                : response1
summarise_history                        : utterance1 response1 utterance2 expanded
topic_switch                             : conversation question
"""
"""Prompt, and the methods in which it differs from other methods : values in their order.

A number is a limit, such as 5 queries; ``system`` is a system message. The question is the manual
rewrite where the prompt's name ends in ``_human``.
"""

UTTERANCES = ["uttera", "utterb"]
RESPONSES = ["resporea", "resporeb"]
PTKB = {"1": "statona", "2": "statonb", "3": "statonc"}
BOTH = "Rewrite: the wrote_rewritten it is?\nResponse: The wrote_answered it is."
LIST = "1. the wrote_query1 it is\n2. the wrote_query2 it is"
WORD_OF_ANSWER = {
    "rewrite": "rewritten",
    "rewrite_short": "shortened",
    "rewrite_clear": "cleared",
    "rewrite_personal": "personalised",
    "rewrite_enhanced": "enhanced",
    "answer": "answered",
    "answer_one_shot": "answered",
    "guess_answer": "guessed",
    "expand_response": "expanded",
    "expand_response_personal": "expanded",
    "preferences": "preferred",
    "clarify": "clarified",
    "suggest": "suggested",
    "suggest_context": "suggested",
    "summarise": "summed",
    "summarise_history": "summed",
    "condense_passages": "condensed",
    "respond": "responded",
    "respond_passages_only": "responded",
    "respond_suggested": "responded",
}
"""Prompt -> the word of the text that answers it."""
PASSAGE_QUERY = "The wrote_written it is. More of it is."
ANSWERS = {
    **{prompt: f"The wrote_{word} it is." for prompt, word in WORD_OF_ANSWER.items()},
    **dict.fromkeys(
        ["rewrite_and_answer", "rewrite_and_answer_without_persona"], f"Reason: it is so.\n{BOTH}"
    ),
    "rewrite_by_level": f"Level: b\n{BOTH}",
    "reformulate_rewrite": BOTH,
    "reformulate_queries": "Response: The wrote_answered it is.\nQueries: the wrote_query1 it is",
    "reformulate_select": f"Statements: [1, 3]\n{BOTH}",
    **dict.fromkeys(["queries", "queries_given_answer", "queries_given_other_answer"], LIST),
    "queries_statement": '["the wrote_query1 it is", "the wrote_query2 it is"]',
    "statements_copies": "1: statona\n3: statonc",
    "statements_ids": "[1, 3]",
    **dict.fromkeys(["statements_scores", "statements_scores_suggested"], '{"1": 0.9, "3": 0.3}'),
    "topic_switch": "same",
    "decide": '{"action": "answer"}',
    "rerank": "2",
    "passage_queries_article": PASSAGE_QUERY,
    "passage_queries_short": PASSAGE_QUERY,
    "passage_queries_long": PASSAGE_QUERY,
    "passage_queries_styled": PASSAGE_QUERY,
}
"""What the model writes: each text that a later prompt may show has a word of its own."""
NEW = (
    "wrote_new: if the prompt asks for a form, "
    "ANSWERS in tests/methods/test_prompt_values.py needs a line with it"
)
"""What the model writes to any other prompt. A failure of an operator shows its beginning."""
WRITTEN = set(re.findall(r"wrote_(\w+)", "\n".join([*ANSWERS.values(), NEW])))
WORDS = {
    "askora": "question",
    "manora": "manual",
    "uttera": "utterance1",
    "utterb": "utterance2",
    "resporea": "response1",
    "resporeb": "response2",
    "statona": "statement1",
    "statonb": "statement2",
    "statonc": "statement3",
    **{f"wrote_{word}": word for word in WRITTEN},
}
"""Word in a prompt -> what it stands for."""
TOLD = {
    "utterance1 response1 utterance2 response2": "conversation",
    "utterance1 summed utterance2 response2": "summed_conversation",
    "utterance1 utterance2 response2": "last_response_conversation",
    "statement1 statement2 statement3": "persona",
    "statement1 statement3": "chosen",
}
VALUE = re.compile(
    rf"(?:at most|exactly|stay below) (\d+)|\b(?:{'|'.join(WORDS)})\b|passagora(\d+)", re.IGNORECASE
)
"""A limit, a text that is given or written, or a passage."""
WITH_LLM = [name for name, entry in METHODS.items() if {"llm", "second_llm"} & set(entry.needs)]
WITH_LLM += [
    "mq4cs:n=1",
    "mq4cs:n=4",
    "mq4cs_ans:n=1",
    "ad:question=qresolved",
    "aqd_a:second_llm=second_llm",
]
WITH_LLM += ["aqd_a_llama:question=qresolved", "aqd_a_llama:second_llm=second_llm"]


class Search(pt.Transformer):
    """Finds twelve passages for every query, each with its rank in its text."""

    def transform(self, queries):
        found = queries.loc[queries.index.repeat(12)].reset_index(drop=True)
        places = list(range(1, 13)) * len(queries)
        found = found.assign(
            docno=[f"d{place}" for place in places],
            text=[f"passagora{place} it is" for place in places],
        )
        return pt.model.add_ranks(found.assign(score=[20.0 - place for place in places]))


class Keep(pt.Transformer):
    """A re-ranker that keeps the order and finds everything relevant."""

    def transform(self, results):
        return pt.model.add_ranks(
            results.assign(score=[1000.0 - place for place in range(len(results))])
        )


def turn():
    """The third turn of a conversation. Some methods summarise its first, long response."""
    messages = [
        {"role": "user", "content": UTTERANCES[0]},
        {"role": "assistant", "content": f"{RESPONSES[0]} {'long ' * 120}"},
        {"role": "user", "content": UTTERANCES[1]},
        {"role": "assistant", "content": RESPONSES[1]},
        {"role": "user", "content": "askora"},
    ]
    return ikat.conversation(messages, PTKB).assign(qresolved="manora", qgoldptkb=[["2"]])


def told(messages):
    """The values in a request, in their order, and its limits."""
    text = "\n".join(message["content"] for message in messages)
    found = [message["role"] for message in messages if message["role"] == "system"]
    for match in VALUE.finditer(text):
        limit, passage = match.groups()
        if limit:
            found.append(limit)
        elif passage:
            found.append(f"passage{passage}")
        else:
            found.append(WORDS[match[0]])
    line = re.sub(r"\b(passage\d+) (?:passage\d+ )*passage(\d+)", r"\1-\2", " ".join(found))
    line = re.sub(r"\bpassage\d+(?!\d|-)", "passage", line)
    for values, name in TOLD.items():
        line = re.sub(rf"\b{values}\b", name, line)
    return line


@functools.cache
def asked(name):
    """(prompt, values) of each distinct request of a method."""
    answers_llama = {f"{prompt}_llama": text for prompt, text in ANSWERS.items()}
    first = ByPrompt(NEW, **ANSWERS, **answers_llama)
    second = ByPrompt(NEW, **ANSWERS, **answers_llama)
    given = {
        "retriever": Search(),
        "dense": Search(),
        "reranker": Keep(),
        "llm": first.llm,
        "second_llm": second.llm,
    }
    find(name).build(**given)(turn())
    requests = first.asked + second.asked
    return sorted({(request.prompt, told(request.messages)) for request in requests})


@functools.cache
def table():
    """(prompt, method or nothing) -> the values of its requests."""
    rows = {}
    for line in TABLE.strip().splitlines():
        match = re.fullmatch(r"(\w+)((?: \w[\w:=]*)*) *: *(.+)", line)
        prompt, names, values = match.groups()
        for name in names.split() or [None]:
            rows[prompt, name] = values.split(" | ")
    return rows


@pytest.mark.parametrize("name", WITH_LLM)
def test_every_value_the_paper_puts_in_a_prompt_is_sent_in_it(name):
    expected = table()
    found = asked(name)
    assert found
    for prompt in {prompt for prompt, _ in found}:
        plain = prompt.removesuffix("_human")
        sent = [values for one, values in found if one == prompt]
        values = expected.get((plain, name)) or expected.get((plain, None))
        row = f"{plain}: {' | '.join(sent)}"
        if plain != prompt:
            row = row.replace("manual", "question")
        assert values is not None, (
            "are these the values that the paper puts into the prompt? "
            f"Then add the row to TABLE in {__file__}:\n{row}"
        )
        wanted = values
        if plain != prompt:
            wanted = [value.replace("question", "manual") for value in values]
        assert sent == wanted, f"is a row `{plain} {name} : ...` missing in TABLE of {__file__}?"


def test_every_row_of_the_table_is_of_a_prompt_a_method_sends():
    sent = set()
    for name in WITH_LLM:
        for prompt, _ in asked(name):
            sent.add((prompt.removesuffix("_human"), name))
    assert {prompt for prompt, _ in table()} <= {prompt for prompt, _ in sent}
    assert {row for row in table() if row[1]} <= sent
