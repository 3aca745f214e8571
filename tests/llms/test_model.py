"""A language model as a value and as a resource: equality, what is known without a call, what closing frees."""

import json

from chat_server import ask

from pyterrier_ikat.llms import llm


def test_the_order_of_options_makes_no_other_model():
    one, other = llm("openai:m seed=1 top_p=0.5"), llm("openai:m top_p=0.5 seed=1")
    assert one == other
    assert hash(one) == hash(other)


def test_a_model_is_not_its_text():
    assert (llm("openai:m") == "openai:m") is False


def test_what_was_recorded_took_no_time(tmp_path):
    path = tmp_path / "recorded.jsonl"
    path.write_text(json.dumps({"qid": "1_1", "stage": "answer", "completion": "text", "model": "m"}))
    assert llm(f"recorded:{path}").peek(ask("a")[0]).seconds == 0.0


def test_closing_closes_the_cache_file_and_the_next_call_opens_it_again(model, home):
    made, log = model(), home / "llm.sqlite-wal"
    made.ask(ask("a"))
    assert log.exists()
    made.close()
    assert not log.exists()
    assert made.ask(ask("a"))[0].cached
