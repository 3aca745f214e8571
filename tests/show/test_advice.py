"""Systems on logged conversations, without judgements: agreement, price, telling turns."""

import itertools

import pandas as pd
import pyterrier as pt
import pytest
from small_runs import best_first

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.llms import LLM, Backend, Reply
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.ledger import Budget


def plain(tops, depth):
    """Agreement and the order of turns in plain Python."""
    pairs = []
    alike = dict.fromkeys(next(iter(tops.values())), 0.0)
    for one, other in itertools.combinations(tops, 2):
        shares = []
        differ = 0
        for qid in alike:
            first = tops[one][qid][:depth]
            second = tops[other][qid][:depth]
            share = len(set(first) & set(second)) / max(len(first), len(second), 1)
            shares.append(share)
            alike[qid] += share
            if set(tops[one][qid][:3]) != set(tops[other][qid][:3]):
                differ += 1
        pairs.append((one, other, sum(shares) / len(shares), differ / len(shares)))
    return pairs, sorted(alike, key=lambda qid: round(alike[qid], 9))


@pytest.mark.real_data
def test_real_turns_are_compared_as_in_plain_python(ikat_data, tmp_path):
    """The turns of eight conversations of ikat:2023-mini, raw and with rewrites."""
    data = ikat.dataset("ikat:2023-mini")
    data.conversations = data.conversations[:8]
    bm25 = ikat.PassageIndex(tmp_path / "index").index(data.get_corpus_iter(verbose=False)).bm25()
    systems = {"raw": bm25, "all": ikat.AllUtterances() >> bm25, "ten": bm25 % 10}
    found = ikat.advise(data, systems, depth=5)
    tops = {}
    for name, system in systems.items():
        tops[name] = {qid: [] for qid in data.get_topics()["qid"]}
        for qid, rows in system(data.get_topics()).groupby("qid"):
            tops[name][qid] = rows.sort_values("rank")["docno"].tolist()[:5]
    pairs, order = plain(tops, 5)
    assert [row[:2] for row in found.pairs.values.tolist()] == [
        [one, other] for one, other, *_ in pairs
    ]
    assert found.pairs[["overlap", "differ"]].to_numpy() == pytest.approx(
        pd.DataFrame(pairs)[[2, 3]].to_numpy()
    )
    assert 0 < found.pairs["overlap"][0] < found.pairs["overlap"][1] == 1
    assert (len(found.turns), list(found.turns)) == (20, order[:20])
    assert found.systems["cost"].tolist() == [0, 0, 0]
    assert f"--turns {','.join(order[:20])}" in str(found)
    assert "nothing on quality" in str(found)


def finding(**passages):
    """A system that finds these passages, best first, of each turn; ``_`` stands for a blank."""

    def find(turns):
        rows = []
        for qid, query in zip(turns["qid"], turns["query"], strict=True):
            for rank, docno in enumerate(passages.get(query, "").split()):
                rows.append((qid, query, docno, -float(rank), rank))
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank"])

    return pt.apply.generic(find)


TEA = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea", "milk", "ale"]})


@pytest.mark.filterwarnings("ignore")
def test_agreement_is_the_share_of_common_passages_by_hand():
    """Of tea all four are common in another order, of milk two of four, of ale nothing is found."""
    one = finding(tea="a b c d", milk="a b c d")
    other = finding(tea="d c b a", milk="a x b y")
    third = finding(tea="a b c d", milk="a b c", ale="z")
    advice = ikat.advise(TEA, {"one": one, "other": other, "third": third})
    pairs = advice.pairs.set_index(["system", "other"])
    assert pairs.loc["one", "other"].tolist() == pytest.approx([(1 + 0.5 + 1) / 3, 2 / 3])
    assert pairs.loc["one", "third"].tolist() == pytest.approx([(1 + 0.75 + 0) / 3, 1 / 3])
    assert pairs.loc["other", "third"].tolist() == pytest.approx([(1 + 0.5 + 0) / 3, 1.0])
    assert list(advice.turns) == ["1_3", "1_2", "1_1"]  # 1/3, (.5 + .75 + .5)/3 and 1 in common
    assert advice.systems.values.tolist() == [["one", 0.0], ["other", 0.0], ["third", 0.0]]
    assert str(advice).count("third") == 3  # its cost, and two pairs


@pytest.mark.filterwarnings("ignore")
def test_only_the_first_passages_and_turns_are_compared():
    one = finding(tea="a b c d", milk="a b")
    other = finding(tea="a b x d", milk="b a")
    for depth, overlap in ((2, 1.0), (3, (2 / 3 + 1 + 1) / 3), (4, (3 / 4 + 1 + 1) / 3)):
        advice = ikat.advise(TEA, {"one": one, "other": other}, depth=depth, first=2)
        assert advice.pairs["overlap"].item() == pytest.approx(overlap)
        assert advice.pairs["differ"].item() == pytest.approx((depth > 2) / 3)
        assert (len(advice.turns), advice.depth) == (2, depth)
        assert f"--turns {','.join(advice.turns)}" in str(advice)


def test_advice_says_what_was_compared_and_how_to_judge():
    turns = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
    finds = pt.apply.generic(lambda rows: rows.assign(docno=rows["query"], score=1.0, rank=0))
    teas = pt.apply.generic(lambda rows: rows.assign(docno="tea", score=1.0, rank=0))
    advice = ikat.advise(turns, {"a": finds, "b": teas}, depth=4, first=1)
    text = str(advice)
    assert "overlap of the first 4 passages; differ: other first 3;" in " ".join(text.split())
    assert text.endswith("Judge first: ikat judge RUN... --turns 1_2")
    for options in ({"depth": 0}, {"first": 0}):
        with pytest.raises(UsageError, match="=0: give 1 or more"):
            ikat.advise(turns, {"a": finds, "b": teas}, **options)
    with pytest.raises(UsageError, match=r"no system uses texts=\.\.\.: omit it"):
        ikat.advise(turns, {"a": finds, "b": teas}, texts="no such")


def that_finds(found):
    return pt.apply.generic(lambda rows: rows.merge(found, on="qid"))


def test_advice_is_by_default_on_ten_passages_and_twenty_turns():
    turns = pd.DataFrame({"qid": [f"1_{n}" for n in range(22)], "query": "tea"})
    docnos = [f"d{n}" for n in range(12)]
    first = best_first(dict.fromkeys(turns["qid"], docnos))
    other = best_first(dict.fromkeys(turns["qid"], [*docnos[:10], "x10", "x11"]))
    systems = {"a": that_finds(first), "b": that_finds(other)}
    advice = ikat.advise(turns, systems)
    assert advice.pairs.values.tolist() == [["a", "b", 1.0, 0.0]]
    assert (advice.depth, len(advice.turns)) == (10, 20)
    assert ikat.advise(turns, systems, depth=12).pairs["overlap"].item() == pytest.approx(10 / 12)


def test_nothing_is_compared_to_the_depth_0():
    with pytest.raises(ikat.UsageError, match="depth=0: give 1 or more"):
        ikat.advise(pd.DataFrame({"qid": ["1_1"], "query": ["tea"]}), ["raw"], depth=0)


def test_a_single_system_has_nothing_to_be_compared_with():
    with pytest.raises(UsageError, match="1 system: give two or more"):
        ikat.advise(TEA, {"one": finding(tea="a")})


@pytest.mark.filterwarnings("ignore")
def test_turns_go_by_the_mean_of_all_pairs_in_the_order_given():
    """Of tea two of three systems agree; of milk all three have a half in common."""
    first = finding(tea="a b", milk="a b")
    second = finding(tea="a b", milk="a c")
    third = finding(tea="x y", milk="a d")
    advice = ikat.advise(TEA[:2], {"c": first, "b": second, "a": third})
    assert advice.pairs[["system", "other"]].values.tolist() == [["c", "b"], ["c", "a"], ["b", "a"]]
    assert list(advice.turns) == ["1_1", "1_2"]  # 1/3 and 1/3, in the order of the turns
    fourth = finding(tea="a b", milk="e f")
    advice = ikat.advise(TEA[:2], {"c": first, "b": second, "a": third, "d": fourth})
    assert list(advice.turns) == ["1_2", "1_1"]  # 1.5 / 6 and 3 / 6 in common


def test_a_saved_chat_is_a_log(tmp_path):
    chat = Chat(
        pt.apply.generic(lambda rows: rows.assign(docno="tea", score=1.0, rank=0)),
        ["I avoid caffeine."],
        out=tmp_path / "chat",
    )
    for said in ("Which tea may I drink?", "tea"):
        chat.say(said)
    find = pt.apply.generic(lambda rows: rows.assign(docno=rows["query"], score=1.0, rank=0))
    found = ikat.advise(
        tmp_path / "chat", {"find": find, "tea": find >> pt.apply.docno(lambda row: "tea")}
    )
    assert (found.pairs["overlap"].tolist(), found.turns) == (
        [0.5],
        [f"{chat.number}_1", f"{chat.number}_2"],
    )


class Priced(Backend):
    """A model whose calls take 1,000 tokens in and 100 out."""

    model = "priced"
    identity = {"provider": "fake", "model": "priced", "params": {}}

    def complete(self, requests):
        tokens = {"prompt_tokens": 1000, "completion_tokens": 100}
        reply = Reply("green tea", self.model, finish_reason="stop", **tokens)
        return [reply for _ in requests]


def test_the_price_of_a_turn_is_beside_the_agreement():
    turns = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea?", "green tea"]})
    find = pt.apply.generic(lambda rows: rows.assign(docno=rows["query"], score=1.0, rank=0))
    llm = LLM(Priced(), budget=Budget(price_in=1.0, price_out=10.0))
    found = ikat.advise(turns, {"raw": find, "rewrite": ikat.Rewrite(llm) >> find}, first=1)
    assert found.systems.values.tolist() == [["raw", 0.0], ["rewrite", pytest.approx(0.002)]]
    assert found.pairs.values.tolist() == [["raw", "rewrite", 0.5, 0.5]]
    assert found.turns == ["1_1"]
    with pytest.raises(UsageError, match="1 system: give two or more"):
        ikat.advise(turns, {"raw": find})


def test_a_price_is_of_compared_turns_and_what_is_known(tmp_path):
    find = pt.apply.generic(lambda rows: rows.assign(docno=rows["query"], score=1.0, rank=0))
    budget = Budget(price_in=1.0, price_out=10.0)
    llm = LLM(Priced(), budget=budget, cache=CompletionCache(tmp_path / "llm.sqlite"))
    first = TEA[:1].assign(query="cocoa")
    ikat.Rewrite(llm)(first)  # paid before
    system = ikat.Rewrite(llm) >> find
    found = ikat.advise(TEA[:2], {"a": system, "b": system}).systems
    assert found.values.tolist() == [
        ["a", pytest.approx(0.002)],
        ["b", pytest.approx(0.002)],  # from the cache
    ]
    unpriced = ikat.Rewrite(LLM(Priced())) >> find
    costs = ikat.advise(TEA[:2], {"a": find, "b": unpriced}).systems["cost"].tolist()
    assert costs[0] == 0.0
    assert pd.isna(costs[1])
    llm.close()


@pytest.mark.filterwarnings("ignore")
def test_a_price_is_of_all_models_and_of_turns_without_passages():
    budget = Budget(price_in=1.0, price_out=10.0)
    rewriter = LLM(Priced(), budget=budget)
    answerer = LLM(Priced(), budget=budget)
    find = finding(tea="a")
    system = ikat.Rewrite(rewriter) >> ikat.Answer(answerer) >> find
    systems = ikat.advise(TEA[:2], {"a": system, "b": find}).systems
    assert systems["cost"].tolist() == [pytest.approx(0.004), 0.0]


def test_scores_that_are_no_numbers_are_told_of_their_system():
    odd = pt.apply.generic(lambda rows: rows.assign(docno="a", score="x", rank=0))
    with pytest.raises(ikat.DataError, match="odd"):
        ikat.advise(TEA, {"fine": finding(tea="a"), "odd": odd})
