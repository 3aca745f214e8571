"""The PTKB study by hand: which statements are shown, what is searched, what is replayed."""

import pytest
from methods.answered import PTKB, ran

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import find
from pyterrier_ikat.methods.definition import StandIn


@pytest.mark.parametrize("tail", ["", "_queries"])
@pytest.mark.parametrize(
    ("name", "shown"), [("none", ""), ("all", "12"), ("human", "1"), ("str", "2")]
)
def test_each_choice_shows_its_statements_and_searches_two_texts(name, shown, tail):
    _, queries, prompts = ran(f"ptkb_{name}{tail}")
    assert queries == ["tea sleep Rooibos." if tail else "Which tea helps me sleep? Rooibos."]
    assert ("1: I own a dog." in prompts[-1]) == ("1" in shown)
    assert ("2: I sleep badly." in prompts[-1]) == ("2" in shown)
    assert len(prompts) == (2 if name == "str" else 1)


def test_sar_chooses_in_one_completion_and_numbers_one_statement():
    results, queries, [prompt] = ran("ptkb_sar")
    assert queries == ["Which tea helps me sleep? Rooibos."]
    assert results["qstatements"].tolist() == [[("2", 1.0)]]
    assert all(text in prompt for text in PTKB.values())
    for number, shown in ((1, {"1"}), (2, {"2"}), (9, set())):
        _, _, [prompt] = ran(ikat.methods.ptkb_statement, statement=number)
        assert {one for one, text in PTKB.items() if text in prompt} == shown


@pytest.mark.parametrize(
    ("name", "arguments", "prompts"),
    [
        ("ptkb_none", {}, ["none-0shot-prompt2"]),
        ("ptkb_all", {"form": "queries"}, ["all-0shot-prompt1"]),
        ("ptkb_human", {}, ["human-0shot-prompt2"]),
        ("ptkb_human_queries", {}, ["human-0shot-prompt1"]),
        ("ptkb_str", {"shots": 3}, ["llm-3shot-prompt2"]),
        ("ptkb_sar", {"shots": 5}, ["sar-5shot"]),
        ("ptkb_statement", {}, []),
    ],
)
def test_each_ptkb_system_replays_its_own_prompt(monkeypatch, name, arguments, prompts):
    asked = []

    def recording_of(llm, prompt):
        asked.append(prompt)
        return llm

    monkeypatch.setattr("pyterrier_ikat.methods.ptkb_2024.recording_of", recording_of)
    entry = find(name).with_arguments(arguments)
    entry.build(llm=StandIn("llm"), retriever=StandIn("retriever"))
    assert asked == prompts


def test_recorded_rewrites_of_chosen_statements_choose_nothing(monkeypatch):
    recorded = {"llm": "personalizedcir-llm-0shot-prompt2", "other": "personalizedcir-all-0shot"}
    monkeypatch.setattr(
        "pyterrier_ikat.methods.ptkb_2024.recorded_prompt", lambda llm: recorded[llm.name]
    )
    for name, chooses in (("llm", False), ("other", True)):
        system = find("ptkb_str").build(llm=StandIn(name), retriever=StandIn("retriever"))
        assert ("SelectStatements" in repr(system)) is chooses
