# %% [markdown]
# # Judge what was never judged
# New systems find passages that no assessor saw. Here their top passages are pooled, a language model judges them, the new judgements are
# merged with the official ones, and the two judges are compared (Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4). All on the
# bundled sample, offline; the judge below is a rule, so the figures show how it works and are no evidence about any system or judge.

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
# Figures as TREC computes them: the mean over all turns of the qrels, two-sided paired t-test with Bonferroni correction.
# `Judged@10` is the share of the top 10 that was judged.

# %%
table = ikat.experiment(systems, data, [nDCG@5, Judged@10], baseline="QR")
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "Judged@10", "turns"]].round(3)

# %% [markdown]
# The pool: what any system has among its first ten. A judge is shown each passage with the turn's rewrite, statements and gold
# response.

# %%
runs = {name: system(topics) for name, system in systems.items()}
pooled = ikat.pool_runs(runs, depth=10)
shown = ikat.evaluation.with_gold(pooled, data)
shown.head(3)

# %% [markdown]
# Any object with `.generate()` is a language model. This one counts the longer words that passage and gold response share; with
# a key at hand, `ikat.llm("openai:gpt-4o")` judges instead.

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
# How far do the two judges agree? Rows: the new labels, columns: the sample's own; from label 2 on a passage is relevant.

# %%
print(ikat.agreement(judged, qrels))

# %% [markdown]
# Where both judged, the official label counts; everything in the pool is judged now, so `Judged@10` is 1.

# %%
merged = ikat.merge_qrels(qrels, judged)
again = ikat.experiment(runs, data, [nDCG@5, Judged@10], topics=topics, qrels=merged)
tau = ikat.evaluation.order_agreement(table, again, nDCG@5)
print(f"Kendall's tau of the systems' orders by the official and the merged judgements: {tau:.2f}")
again[["name", "nDCG@5", "Judged@10", "turns"]].round(3)

# %% [markdown]
# Which turns of a conversation are hard? And on how many turns is a system better than the baseline?

# %%
depths = ikat.breakdown(runs, qrels, nDCG@5, by="depth")
ikat.show.plot_breakdown(depths);

# %%
ikat.evaluation.win_tie_loss(runs, qrels, nDCG@5, baseline="QR")
