"""CFDA by hand: the best of N rewrites, of both kinds."""

import pytest
from methods.defined import RETRIEVER
from methods.sampled import CHAT, PTKB, Likes, Search, prompts

import pyterrier_ikat as ikat
from pyterrier_ikat import methods
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import best_of_n, cfda_best_of_n, find
from pyterrier_ikat.methods.cfda_2025 import personal_chiq
from pyterrier_ikat.methods.definition import StandIn


def test_the_best_of_n_is_chosen_by_its_passages_and_searched(model, turn):
    search = Search()
    likes = Likes(figs=3, nuts=2)
    out = best_of_n(model.llm, search, likes, n=5)(turn)
    assert search.queries == [
        "oats",
        "nuts",
        "figs",
        "figs",
    ]  # each distinct rewrite, then the best
    assert out["qrewrite"].tolist() == ["figs"]
    assert out["docno"].tolist() == ["figs"]


def test_a_chosen_query_file_needs_no_model(tmp_path):
    path = tmp_path / "queries.tsv"
    path.write_text("1_1\ttea\n")
    entry = find("best_of_n").with_arguments({"queries": str(path)})
    built = entry.build(retriever=RETRIEVER, reranker=StandIn("reranker"))
    expected = (
        f"(ikat.generate.GivenQueries({str(path)!r}) >> retriever >> RankCutoff(100) >> reranker)"
    )
    assert repr(built) == expected
    with pytest.raises(UsageError, match="without an llm needs queries=FILE"):
        methods.best_of_n(None, RETRIEVER, StandIn("reranker"))


def test_cfda_fuses_the_best_of_each_kind_and_reranks_by_llm4cs(model, turn):
    search = Search()
    likes = Likes(hill=9, food=1, figs=3)
    out = cfda_best_of_n(model.llm, search, likes, n=5)(turn)
    assert len(model.asked) == 5 + 5 + 5
    # of CHIQ: (0 + 0 + 1) / 3, (9 + 1) / 2, 1 and 0; of LLM4CS: figs
    assert search.queries == [
        "vegan walk food",
        "hill food",
        "food",
        "hills",
        "hill food",
        "oats",
        "nuts",
        "figs",
        "figs",
    ]
    assert out["docno"].tolist() == ["hill", "figs", "food"]
    assert {query for query, _ in likes.pairs[-3:]} == {"figs"}
    assert out["qrewrite"].unique().tolist() == ["figs"]


def test_cfda_guesses_and_expands_nothing_where_a_topic_begins(model, turn):
    model.answers["topic_switch"] = "new"
    earlier = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Welcome."}]
    out = personal_chiq(model.llm)(ikat.conversation([*earlier, *CHAT], PTKB))
    assert prompts(model) == ["topic_switch", "rewrite_clear", "preferences"]
    assert out["qhistory"].item() == CHAT[:2]
    assert out["qanswer"].item() == ""
    model.asked.clear()
    cfda_best_of_n(model.llm, Search(), Likes(), n=5)(ikat.conversation(CHAT[:1], PTKB))
    assert len(model.asked) == 2 + 5 + 5
