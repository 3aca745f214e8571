# %% [markdown]
# # Judge what was never judged
# **Question: does the comparison change when every passage in the top 10 is judged?**
#
# New systems find passages that no assessor saw. Here the top passages of all systems are pooled, and a language model judges them. The new judgements
# are merged with the official ones, and the two judges are compared (Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4).
#
# Everything runs offline on the bundled sample. The judge below is a rule, so the scores are not evidence about any system or judge.

# %%
import re
import warnings
warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import Judged, nDCG

data = pt.get_dataset("ikat:sample")
topics, qrels = data.get_topics(), data.get_qrels()
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()
systems = {
    "raw": ikat.RawUtterance() >> bm25,
    "QR": ikat.Rewrite(llm) >> bm25,
    "AD": ikat.Answer(llm) >> bm25,
    "AQD": ikat.Answer(llm) >> ikat.MultiQuery(llm, n=5, given="answer") >> bm25 >> ikat.Interleave(),
}

# %% [markdown]
# ## The systems, by the official judgements
# Scores are means over all turns of the qrels, tested by a two-sided paired t-test with Bonferroni correction.
# `Judged@10` is the share of the top 10 that was judged.

# %%
table = ikat.experiment(systems, data, [nDCG@5, Judged@10], baseline="QR")
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "Judged@10", "turns"]].round(3)

# %% [markdown]
# Only a quarter of the top 10 of `raw` was judged. An unjudged passage counts as not relevant, so its score may be too low.
#
# ## The pool
# The pool holds the first ten passages of every system. The judge sees each passage with the turn's rewrite, statements and gold response.

# %%
runs = {name: system(topics) for name, system in systems.items()}
pooled = ikat.pool_runs(runs, depth=10)
shown = ikat.evaluation.with_gold(pooled, data)
shown.head(3)

# %% [markdown]
# ## A judge
# Any object with `.generate()` is a language model. This one counts the longer words that passage and gold response share. With
# a key, `ikat.llm("openai:gpt-4o")` judges instead.

# %%
class SharedWords:
    def generate(self, chats):
        return [self.judge(*re.findall(r"<text>(.*?)</text>", str(chat), re.DOTALL)) for chat in chats]

    def judge(self, answer, passage):
        wanted, found = (set(re.findall("[a-z]{5,}", text.lower())) for text in (answer, passage))
        shared = sorted(wanted & found)
        return f"{min(len(shared) // 2, 4)}\nShared words: {', '.join(shared) or 'none'}."

judged = ikat.Judge(ikat.llm(SharedWords()))(shown)
judged[["qid", "docno", "label", "reason"]].head(5)

# %% [markdown]
# ## Do the two judges agree?
# Rows are the new labels, columns are those of the sample. A passage is relevant from label 2.

# %%
print(ikat.agreement(judged, qrels))

# %% [markdown]
# The agreement of this rule is low, as one would expect. Report kappa beside every result that depends on an automatic judge.
#
# ## The systems, by the merged judgements
# Where both judged, the official label counts. The whole pool is judged now, so `Judged@10` is 1.

# %%
merged = ikat.merge_qrels(qrels, judged)
again = ikat.experiment(runs, data, [nDCG@5, Judged@10], topics=topics, qrels=merged)
tau = ikat.evaluation.order_agreement(table, again, nDCG@5)
print(f"Kendall's tau of the systems' orders by the official and the merged judgements: {tau:.2f}")
again[["name", "nDCG@5", "Judged@10", "turns"]].round(3)

# %% [markdown]
# Both sets of judgements order the systems alike (tau is 1), but every score is higher with the merged judgements. So scores by different judgements
# must not be compared with each other. With four systems, tau is coarse.
#
# ## Which turns are hard?
# The plot shows the mean at each depth and the number of turns. Four turns are too few for an interval. The table counts the turns on which a system is
# better than the baseline.

# %%
depths = ikat.breakdown(runs, qrels, nDCG@5, by="depth")
ikat.show.plot_breakdown(depths);

# %%
ikat.evaluate(runs, qrels, [nDCG@5], baseline="QR")[["name", "nDCG@5 +", "nDCG@5 -"]]

# %% [markdown]
# ## Try next
# - Judge with a live model, and report the agreement with the official labels next to the scores.
# - Pool only two systems and evaluate all four: which system loses?
# - Use the command line: `ikat judge RUNS --dataset ikat:sample --index my.index --llm openai:gpt-4o --out judged.qrels`.
