# %% [markdown]
# # Evidence on real turns, without a key
# **Question: which query should one search with, and how sure is that?**
#
# CFDA & CLIP published ten GPT-4o-mini rewrites and answers for each turn of iKAT 2023. `recorded:cfda-llm4cs` reads them from the authors' repository
# (or from `$IKAT_DATA/outputs`), and `ikat:2023-mini` has 280 of these turns with their gold passages. The texts belong to their authors, so this
# notebook shows counts and scores only. The page on evidence (`docs/evidence.md`) has all tables, tests and limits.

# %%
import warnings
warnings.simplefilter("ignore")
import logging
logging.disable(logging.WARNING)
import pandas as pd
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

data = pt.get_dataset("ikat:2023-mini")
llm = ikat.llm("recorded:cfda-llm4cs")
bm25 = ikat.PassageIndex("mini.index").index(data.get_corpus_iter(verbose=False)).bm25(num_results=100)

# %% [markdown]
# ## One query per turn
# The raw utterance, a rewrite, an answer, and rewrite and answer as one query; differences from the rewrite are tested over the 280 turns.

# %%
both = ikat.Samples(ikat.RewriteAndAnswer(llm), 1, ("qrewrite", "qanswer")) >> ikat.Aggregate("first")
systems = {
    "raw utterance": ikat.RawUtterance() >> bm25,
    "rewrite": ikat.Rewrite(llm) >> bm25,
    "answer": ikat.Answer(llm) >> bm25,
    "rewrite and answer": both >> bm25,
}
table = ikat.experiment(systems, data, [nDCG@10, R(rel=1)@20], baseline="rewrite")
table[["name", "nDCG@10", "nDCG@10 p-value corrected", "R(rel=1)@20", "turns"]].round(4)

# %% [markdown]
# An answer, even a wrong one, has words of the passages that answer. The raw utterance lacks the conversation.
#
# ## How much does the sample matter?
# Each run takes one of a turn's ten rewrites. This is the spread of ten runs of one prompt.

# %%
topics, qrels = data.get_topics(), data.get_qrels()
drawn = ikat.Samples(ikat.RewriteAndAnswer(llm), 10, ("qrewrite",))(topics)
runs = {f"sample {n + 1}": bm25(drawn.assign(query=[texts[n][0] for texts in drawn["qsamples"]])) for n in range(10)}
alone = ikat.evaluate(runs, qrels, [nDCG@10])["nDCG@10"]
alone.describe()[["mean", "std", "min", "max"]].round(4).to_frame()

# %% [markdown]
# ## Choose one of ten, or fuse all
# `BestQuery` chooses a sample by what it finds, without judgements. The fusion takes the lists of all, 100 passages each.

# %%
choices = {f"chosen by {rule}": ikat.methods.chosen_of_n(llm, bm25, rule=rule, answer=False, depth=100) for rule in ("agreement", "spread")}
choices["all lists fused"] = ikat.Samples(ikat.RewriteAndAnswer(llm), 10, ("qrewrite",)) >> ikat.ExplodeQueries() >> bm25 >> ikat.RRF()
ikat.experiment(choices, data, [nDCG@10])[["name", "nDCG@10", "turns"]].round(4)

# %% [markdown]
# Ten searches gain little over one, less than adding an answer to the rewrite does. Which rule is best differs between prompts: see the page.
#
# ## Does another team's run get its published score?
# The page compares two whole runs with 20 measures each: `python experiments/evidence.py runs`.
#
# ## Try next
# - Search with vectors, too: `ikat.methods.rewrite_answer_hybrid`, the best system of the page.
# - Read other public outputs: `recorded:personalizedcir-sar-0shot`, with `--turns judged-2023` (`ikat datasets` lists both).
# - Give a model of your own in place of `llm`, and compare it with these.
