# %% [markdown]
# # Hand in a run, and compare anybody's
# A run becomes a submission in the format of its year, checked before it is written; and a submission, ours or not, becomes a run that can
# be evaluated. Here on the bundled sample, which is handed in like 2023, offline and with recorded completions.

# %%
import json
import warnings
warnings.simplefilter("ignore")
from pathlib import Path
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

data = pt.get_dataset("ikat:sample")
topics = data.get_topics()
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()

# %% [markdown]
# A system that ends with `Respond` can be handed in: it writes the response and marks the passages that it used. This one also
# chooses statements about the user.

# %%
system = ikat.SelectStatements(llm, "ids") >> ikat.Rewrite(llm) >> bm25 >> ikat.Respond(llm)
results = system(topics)
results[["qid", "docno", "rank", "used", "qanswer", "qstatements"]].head(3)

# %% [markdown]
# A run folder keeps everything; `ikat run` leaves one, too. It is complete or absent, never half-written.

# %%
folder = ikat.runs.RunFolder("runs/mine")
folder.write(topics, results, ikat.evaluation.per_turn(results, data.get_qrels()), llm.ledger.frame(), {"method": "mine"})
print(*sorted(path.name for path in folder.path.iterdir()))
print(*Path("runs/mine/run.trec").read_text().splitlines()[:3], sep="\n")

# %% [markdown]
# Written and checked in one go: nothing is left behind that the check refuses. Warnings are for a look: here that some turns
# name no statement, and that the sample's passages are none of the collection. The same from the command line:
# `ikat submit runs/mine --dataset ikat:2023 --run-id mine --run-type automatic --out mine.json`.

# %%
warned = ikat.submit.write_submission(folder, data, "mine.json", run_id="mine", run_type="automatic")
print(f"{len(warned)} warnings, such as", *warned[:2], sep="\n")

# %% [markdown]
# What the file looks like, its first turn:

# %%
turn = json.loads(Path("mine.json").read_text())["turns"][0]
response = turn["responses"][0]
print(json.dumps(turn | {"responses": [response | {"passage_provenance": response["passage_provenance"][:2]}]}, indent=1))

# %% [markdown]
# `validate` (or `ikat validate FILE --dataset ikat:2023`) lists all problems of any submission in one pass, errors and warnings.

# %%
broken = json.loads(Path("mine.json").read_text())
broken["turns"][0]["turn_id"] = "1-1-1"
broken["turns"][1]["responses"][0]["passage_provenance"][1]["score"] = "0.5"
broken["turns"][2]["responses"][0]["text"] = ""
broken["turns"].append(broken["turns"][3])
Path("broken.json").write_text(json.dumps(broken))
for problem in ikat.submit.validate("broken.json", data):
    if problem.severity == "error":
        print(problem)

# %% [markdown]
# Read back, the submission gives the figures of the run that it was made from.

# %%
submission = ikat.submit.read_submission("mine.json", data)
ikat.evaluate({"run": folder.results(), "submission": submission.results}, data.get_qrels(), [nDCG@5, R(rel=2)@20])

# %% [markdown]
# So do its statements, and its responses can be compared with the gold ones.

# %%
statements = {"run": "runs/mine", "submission": submission.turns}
ikat.evaluation.evaluate_ptkb(statements, data.get_qrels("ptkb"))[["name", "nDCG@3", "SetP(rel=1)", "SetR(rel=1)", "turns"]].round(3)
