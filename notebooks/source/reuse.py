# %% [markdown]
# # Single operators in other PyTerrier work
# Nothing here needs an iKAT conversation: a frame with `qid` and `query` will do, and so will a conversation without a persona.

# %%
import warnings
warnings.simplefilter("ignore")
import pandas as pd
import pyterrier as pt
import pyterrier_ikat as ikat

# %% [markdown]
# A plain collection and plain topics. Any object with `.generate()` is a language model; this one writes two queries by rule.

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
# The passage index is a PyTerrier retriever like any other, and `RerankAgainst` takes any re-ranker.

# %%
shared_words = pt.apply.doc_score(lambda row: len(set(row["query"].lower().split()) & set(row["text"].lower().split())))
(index.bm25() >> ikat.RerankAgainst(shared_words, "query")).search("coffee or tea")[["docno", "score"]]

# %% [markdown]
# A conversation in the style of TREC CAsT, without a persona:

# %%
chat = ikat.conversation([{"role": "user", "content": "Which tea has no caffeine?"},
                          {"role": "assistant", "content": "Rooibos."},
                          {"role": "user", "content": "And coffee?"}])
pipelines = {"utterance": ikat.RawUtterance() >> index.bm25(), "all utterances": ikat.AllUtterances() >> index.bm25()}
pd.concat([pipeline(chat).assign(system=name) for name, pipeline in pipelines.items()])[["system", "query", "docno", "rank"]]
