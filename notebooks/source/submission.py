# %% [markdown]
# # Submit a run, and evaluate any submission
# **Question: does a submission file say exactly what the system did?**
#
# A run is written as a submission in the format of its year and checked before it is written. Any submission can be read back and evaluated.
# Here everything runs offline on the bundled sample, in the format of 2023, with recorded completions.

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
# ## A system that responds
# A system that ends with `Respond` can be submitted: it writes the response and marks the passages that it used. This one also
# chooses statements about the user.

# %%
system = ikat.SelectStatements(llm, "ids") >> ikat.Rewrite(llm) >> bm25 >> ikat.Respond(llm)
results = system(topics)
results[["qid", "docno", "rank", "used", "qanswer", "qstatements"]].head(3)

# %% [markdown]
# ## A run folder
# A run folder holds everything about a run; `ikat run` writes one, too. It is complete or absent, never half-written. `ir_metadata.yml` describes
# platform, software and method in [a form that other tools read](https://www.ir-metadata.org).

# %%
folder = ikat.runs.RunFolder("runs/mine")
folder.write(topics, results, ikat.evaluation.per_turn(results, data.get_qrels()), llm.ledger.frame(), {"method": "mine"})
print(*sorted(path.name for path in folder.path.iterdir()))
print(*Path("runs/mine/run.trec").read_text().splitlines()[:3], sep="\n")

# %% [markdown]
# ## The submission
# A file with an error is never written. Read the warnings: here some turns name no statement, and the sample's passages are not in the collection.
# The command line does the same: `ikat submit runs/mine --dataset ikat:2023 --run-id mine --run-type automatic --out mine.json`.

# %%
warned = ikat.submit.write_submission(folder, data, "mine.json", run_id="mine", run_type="automatic")
print(f"{len(warned)} warnings, such as", *warned[:2], sep="\n")

# %% [markdown]
# The first turn of the file:

# %%
turn = json.loads(Path("mine.json").read_text())["turns"][0]
response = turn["responses"][0]
print(json.dumps(turn | {"responses": [response | {"passage_provenance": response["passage_provenance"][:2]}]}, indent=1))

# %% [markdown]
# ## Errors
# `validate` (or `ikat submit --check FILE --dataset ikat:2023`) lists all errors and warnings of a submission in one pass. This file has four errors:

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
# ## Back from the file
# The submission has the same scores as the run that it was made from.

# %%
submission = ikat.submit.read_submission("mine.json", data)
ikat.evaluate({"run": folder.results(), "submission": submission.results}, data.get_qrels(), [nDCG@5, R(rel=2)@20])

# %% [markdown]
# The chosen statements have the same scores, too. Equal scores show that nothing was lost in the file; they do not show that the track accepts the run.

# %%
statements = {"run": "runs/mine", "submission": submission.turns}
ikat.evaluation.evaluate_ptkb(statements, data.get_qrels("ptkb"))[["name", "nDCG@3", "SetP(rel=1)", "SetR(rel=1)", "turns"]].round(3)

# %% [markdown]
# ## Try next
# - Submit in the format of another year: `pt.get_dataset("ikat:2025")`.
# - Evaluate the submission of another group: `ikat evaluate THEIRS.json runs/mine --dataset ikat:2023`.
