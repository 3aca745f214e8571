# %% [markdown]
# # What are the statements about a user worth?
# **Question: should a prompt show none, all or chosen statements about the user?**
#
# Mo et al. compare what is shown of the persona, and Lupart et al. ran it again five times with GPT-4o-mini: none, all, those that people chose, those
# that the model chose first (STR), or a choice in the same completion (SAR). Here the systems run offline on the bundled sample, with recorded
# completions. The scores are not evidence that one system is better than another.

# %%
import warnings

warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat

data = pt.get_dataset("ikat:sample")
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()

# %%
systems = {
    "none": ikat.methods.ptkb(llm, bm25, shown="none"),
    "all": ikat.methods.ptkb(llm, bm25),
    "chosen first (STR)": ikat.methods.ptkb_str(llm, bm25),
    "chosen within (SAR)": ikat.methods.ptkb_sar(llm, bm25),
}
ikat.show.draw(systems["chosen first (STR)"])

# %% [markdown]
# Recorded completions are the same for all four, so their scores would be, too. What differs is what the model reads, and the number of calls:

# %%
ikat.plan(systems, "ikat:sample")[["system", "stage", "calls"]]

# %%
chosen = ikat.SelectStatements(llm) >> ikat.ShowStatements("chosen")
topics = data.get_topics().head(4)
topics.assign(all=topics["qptkb"].map(len), chosen=chosen(topics)["qptkb"].map(list))[["qid", "query", "all", "chosen"]]

# %% [markdown]
# ## The published scores
# Means of five runs over 176 turns of iKAT 2023; the sample has no model of the study, so none of our scores stand beside them.

# %%
from pyterrier_ikat.papers import Reproduction, find_table

made = Reproduction("ptkb_2024", "sample", systems=["ptkb_sar"])
[part] = find_table("ptkb_2024", "2023")
made.run(part)
made.table(part)

# %%
ikat.methods.published("ptkb_on_2023")

# %% [markdown]
# ## Try next
# - Show the same to any other system: `ikat.ShowStatements("none")` in front of it, or `ikat run aqd --resources statements=chosen`.
# - Real outputs of the study: `recorded:personalizedcir-sar-0shot` on `ikat:2023-mini`, `--turns judged-2023`.
# - Give the choice examples from data: `ikat.methods.ptkb_str(llm, bm25, shots=3)` with a live model.
