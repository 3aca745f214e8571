# %% [markdown]
# # Your own passages, your own model
# **Question: how do you run a system on your own passages with your own model, and keep its cost under control?**
#
# You index passages from a JSON lines file. The language model is behind an address of yours: vLLM, Ollama, llama.cpp, `transformers serve` or a
# provider.
#
# Requests, cache, ledger and budget are real here. The model is not: to run offline, a small server below speaks the same protocol and replies by
# rule. So the notebook says nothing about the quality of answers.

# %%
import json
import os
import threading
import warnings
warnings.simplefilter("ignore")
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
import pandas as pd
import pyterrier as pt
import pyterrier_ikat as ikat

pd.set_option("display.max_colwidth", 90)

# %% [markdown]
# ## Passages and index
# Each line is a passage, `{"id", "contents", "url"}`. Give one file or a folder of files, plain or packed (`.gz`, `.bz2`). Collections of any size are
# streamed, and the index stores the texts.

# %%
passages = {
    "tyres:0": "A tyre that loses air overnight often has a leaking valve. Wet it: bubbles show the leak.",
    "tyres:1": "Wider tyres at lower pressure roll more softly over cobblestones.",
    "chain:0": "A dry chain squeaks. Wipe it clean, put a drop of oil on every link, and wipe off what is left over.",
    "chain:1": "Wax keeps a chain cleaner than oil, but has to be renewed after rain.",
    "brakes:0": "Squealing rim brakes need cleaning, or pads that touch the rim with their front first.",
    "lights:0": "A hub dynamo gives light without batteries and hardly slows the ride.",
}
lines = [json.dumps({"id": docno, "contents": text, "url": ""}) for docno, text in passages.items()]
Path("passages.jsonl").write_text("\n".join(lines))
bm25 = ikat.PassageIndex("my.index").index(ikat.PassageFiles("passages.jsonl")).bm25()
bm25.search("oil or wax")[["docno", "rank", "text"]]

# %% [markdown]
# ## A conversation
# Take any chat, with or without statements about the user. Its last message is the turn to search for.

# %%
chat = ikat.conversation(
    [
        {"role": "user", "content": "My bicycle squeaks when I pedal."},
        {"role": "assistant", "content": "Does it also squeak when you coast?"},
        {"role": "user", "content": "No, only then. Any advice?"},
    ],
    ["I ride to work in all weathers.", "I live in a flat without a workshop."],
)
chat[["qid", "qutterance", "qptkb"]]

# %% [markdown]
# ## A model behind an address
# This class takes the place of your server. If you have a server, set only `address`, and omit `server` here and below.

# %%
class StandIn(BaseHTTPRequestHandler):
    REPLIES = {"squeak": "Clean the dry chain and oil every link.", "air": "Look for a leak at the valve of the tyre."}

    def do_POST(self):
        prompt = self.rfile.read(int(self.headers["Content-Length"])).decode()
        text = self.REPLIES[max(self.REPLIES, key=prompt.count)]
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        body = json.dumps({"model": "stand-in", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"  # vLLM: http://localhost:8000/v1, Ollama: http://localhost:11434/v1

# %% [markdown]
# One line specifies the model. A key is never part of it: it is read from `OPENAI_API_KEY`, or from the variable given by `api_key_env=...`. A server
# on this machine needs no key. `price_in` and `price_out` are US dollars per million tokens. `cache` is the file that stores every completion.

# %%
spec = f"openai:stand-in base_url={address} temperature=0 cache=my.sqlite price_in=1 price_out=2"
llm = ikat.llm(spec)
systems = {"raw": ikat.RawUtterance() >> bm25, "answer first": ikat.Answer(llm) >> bm25}

# %% [markdown]
# First estimate the cost, then run the systems. The raw utterance finds nothing, because it shares no word with a passage. The answer finds the
# passage about chains.

# %%
ikat.plan(systems, chat)[["system", "stage", "calls", "known", "new", "prompt_tokens", "cost"]]

# %%
found = pd.concat([system(chat).assign(system=name) for name, system in systems.items()])
print(found["qanswer"].dropna().iloc[0])
found[["system", "docno", "rank", "text"]]

# %% [markdown]
# ## The cost
# The ledger counts the calls. The numbers of tokens come from the server.

# %%
counted = ["stage", "model", "calls", "known", "failures", "prompt_tokens", "completion_tokens"]
llm.ledger.frame()[counted]

# %% [markdown]
# ## Nothing is paid for twice
# In a later session, the same line finds the answer in the cache. No call is made.

# %%
later = ikat.llm(spec)
(ikat.Answer(later) >> bm25)(chat)
later.ledger.frame()[counted]

# %% [markdown]
# ## A limit
# `budget` is the limit in US dollars. Once it is reached, no further call is sent. Finished calls are in the cache, so the next attempt with a higher
# limit continues from there. This example sends one call at a time (`concurrency=1`), because calls in flight are always finished.

# %%
questions = ["My tyre loses air every night.", "And the brakes?", "Do I need a new chain?"]
asked = [ikat.conversation([{"role": "user", "content": text}], number=f"c{number}") for number, text in enumerate(questions, 1)]
limited = ikat.llm(f"{spec} budget=0.0001 concurrency=1")
try:
    (ikat.Answer(limited) >> bm25)(pd.concat(asked))
except ikat.IkatError as error:
    print(type(error).__name__, error, sep=": ")

# %% [markdown]
# ## Share the completions
# A file of completions replays a run anywhere, without server, key or network. It has a line per turn and stage. The server is off now.

# %%
server.shutdown()
turn = found[found["system"] == "answer first"].iloc[0]
record = {"qid": turn["qid"], "stage": "answer", "completion": turn["qanswer"], "model": "stand-in"}
Path("recorded.jsonl").write_text(json.dumps(record))
(ikat.Answer(ikat.llm("recorded:recorded.jsonl")) >> bm25)(chat)[["qid", "docno", "rank"]]

# %% [markdown]
# ## Try next
# - Load a local Hugging Face model with `hf:MODEL` in place of an address.
# - Use any object with `.generate()` as a model: see [single operators elsewhere](reuse.ipynb).
# - Index your own passages, and write a chat that they can answer.
