# %% [markdown]
# # DiSCo: the encoder reads the conversation
# **Question: can a query encoder take the place of a rewrite?**
#
# Lupart, Aliannejadi and Kanoulas train SPLADE's query encoder on conversations, so that no LLM writes a query. Here BM25 reads the same text, offline on
# the bundled sample: it shows the text, and says nothing about DiSCo.

# %%
import warnings

warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

data = pt.get_dataset("ikat:sample")
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()

# %%
systems = {
    "conversation as words": ikat.methods.disco(bm25),
    "raw utterance": ikat.RawUtterance() >> bm25,
    "rewrite": ikat.Rewrite(llm) >> bm25,
}
ikat.show.draw(systems["conversation as words"])

# %%
table = ikat.experiment(systems, data, [nDCG @ 5, R(rel=2) @ 20], baseline="rewrite")
table[["name", "nDCG@5", "R(rel=2)@20", "turns"]].round(3)

# %% [markdown]
# ## The published scores
# The scores are those of the model card. With one of their encoders, `made` below runs the same system and marks what differs.

# %%
from pyterrier_ikat.papers import Reproduction, find_table

made = Reproduction("disco_2025", "sample")
[part] = find_table("disco_2025", "card")
made.run(part)
made.table(part)

# %%
ikat.methods.published("disco_card")

# %% [markdown]
# ## Try next
# - Use their encoder. This downloads a model: `ikat.SpladeIndex("splade.index").retriever(query_model="slupart/splade-disco-human-mistral")`.
# - Keep fewer messages, and see how quickly words of old turns do harm: `ikat.AllUtterances(...)`.
