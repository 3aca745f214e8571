"""What the papers publish: each table and figure, with the turns, judgements and measures behind its scores.

The scores themselves are in the papers' files under ``methods/``. This module has the facts that decide whether a score of ours may be
shown next to a published one: the year, the kind of judgement, the number of turns, and the runs that a paper compares with each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from ..errors import UsageError
from ..methods import METHODS, TABLES, Table

NIST, GPT_35 = "NIST", "gpt-3.5-turbo"
STATEMENTS_NIST, STATEMENTS_ORGANISERS = "NIST's PTKB judgements", "the organisers' PTKB judgements"
RESPONSES = "judges of responses"

PASSAGES, PTKB, ANSWERS = "passages", "statements", "responses"

MISSING = {
    NIST: "the NIST judgements of this year: put them into the folder that IKAT_DATA names, or give --qrels FILE --judged-by NIST",
    GPT_35: "GPT-3.5's judgements, which are not published: `ikat judge` with that model makes such labels, --qrels FILE takes them",
    STATEMENTS_NIST: "NIST's PTKB judgements of this year, which are published for 2023 only",
    STATEMENTS_ORGANISERS: "the organisers' PTKB judgements, which come with the topics of each year",
    RESPONSES: "the judges that the resources file names",
}
"""Kind of judgement -> what is missing without it, and how to get it."""


@dataclass(frozen=True)
class Part:
    """A published table of scores, or a part of one with its own judgements.

    Attributes:
        key: the table's key in ``ikat.methods.TABLES``.
        year: the year of the track.
        judgements: who judged: ``NIST``, a model's name, or one of the kinds above.
        about: what is ranked or judged: passages, statements or responses.
        turns: over how many turns the scores average, if the table doesn't say it itself.
        blocks: the groups of systems that the paper tests against each other; empty: all systems.
        listed: the name of the list of these turns, if it is public; see `ikat datasets`.
    """

    key: str
    year: int
    judgements: str = NIST
    about: str = PASSAGES
    turns: int | None = None
    blocks: tuple[tuple[str, ...], ...] = ()
    listed: str = ""

    @property
    def table(self) -> Table:
        """Measures and scores, as published."""
        return TABLES[self.key]

    @property
    def published_turns(self) -> int | None:
        """Over how many turns the paper's scores average; None if it is unknown."""
        return self.table.turns or self.turns

    @property
    def systems(self) -> list[str]:
        """The names of its rows that have a method here."""
        return [name for name in self.table.frame().index if name in METHODS]

    @property
    def only_published(self) -> list[str]:
        """The names of its other rows."""
        return [name for name in self.table.frame().index if name not in METHODS]


@dataclass(frozen=True)
class Matrix:
    """A published table of two judges' labels for the same pairs.

    Attributes:
        year: the year of the track.
        judge: the model whose labels are the rows.
        threshold: the lowest relevant label, if labels are binary; None for the labels themselves.
        counts: the published counts, rows: the model's labels, columns: NIST's.
        said: what a reader must know about the published counts.
    """

    year: int
    judge: str
    threshold: int | None
    counts: tuple[tuple[int, ...], ...]
    said: str

    @property
    def labels(self) -> list[str]:
        """The names of rows and columns."""
        return list(map(str, range(len(self.counts)))) if self.threshold is None else [f"< {self.threshold}", f">= {self.threshold}"]

    def frame(self) -> pd.DataFrame:
        """The published counts: a row per label of the model, a column per label of NIST."""
        frame = pd.DataFrame(self.counts, columns=self.labels)
        frame.insert(0, "label", self.labels)
        return frame


@dataclass(frozen=True)
class Listing:
    """A published table without scores, which describes systems.

    Attributes:
        columns: the titles of its columns.
        rows: a line per system, its cells separated by semicolons; the first is our name of the system.
    """

    columns: tuple[str, ...]
    rows: tuple[str, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """The names of its rows."""
        return tuple(row.split("; ")[0] for row in self.rows)


@dataclass(frozen=True)
class Prompts:
    """A published table of a prompt, and our templates that correspond to it.

    Attributes:
        what: the purpose of the prompt.
        templates: the names of our templates.
    """

    what: str
    templates: tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """A published figure.

    Attributes:
        kind: ``"judged"`` (Judged@10 of each system), ``"depth"`` or ``"conversation"`` (means by turn number or by conversation).
        part: the table whose turns and judgements it shares.
        systems: the systems that it draws. Our copies lack the legends, because they are pictures. If the text doesn't name the systems,
            these are the ones that the paper proposes.
        measure: the measure that it draws, with the paper's name for it.
    """

    kind: str
    part: Part
    systems: tuple[str, ...]
    measure: str

    @property
    def points(self) -> dict[str, float]:
        """System -> published score, if the paper also prints it as a number."""
        scores = self.part.table.frame()
        return {} if self.kind != "judged" or self.measure not in scores else scores.loc[list(self.systems), self.measure].to_dict()


Found = tuple[Part, ...] | Matrix | Listing | Prompts
"""A numbered table."""


@dataclass(frozen=True)
class Paper:
    """A paper with systems of this package.

    Attributes:
        title: authors and title.
        link: DOI or arXiv; empty if unknown.
        engine: the search engine of its first stage.
        tables: number -> the parts of a table of scores, or another kind of table.
        figures: number -> figure.
        deviations: what differs from the paper, or what we decided because it doesn't say, and why.
    """

    title: str
    link: str
    engine: str
    tables: Mapping[str, Found]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    deviations: tuple[tuple[str, str], ...] = ()

    @property
    def parts(self) -> list[Part]:
        """All tables of scores."""
        return [part for table in self.tables.values() if isinstance(table, tuple) for part in table]


_GTR_BLOCKS = (
    ("qd", "aqd", "aqd_human", "aqd_a"),
    ("qd_llama", "aqd_llama", "aqd_given_llama", "aqd_human_llama", "aqd_a_llama"),
    ("human_qr", "qr", "qr_llama", "llama10"),
    ("ad", "ad_llama", "infosense_2023", "convgqr", "monot5"),
    ("aqd_a", "ad"),
)
"""Table 1: the runs of a block are tested against each other, and also AQD_A against AD with GPT-4."""
_GTR_1 = Part("generate_then_retrieve_1", 2023, GPT_35, blocks=_GTR_BLOCKS)
_GTR_3 = Part("generate_then_retrieve_3", 2023, blocks=_GTR_BLOCKS)
_GTR_SYSTEMS = ("qd", "aqd", "aqd_a", "ad")
_GTR_CURVES = (*_GTR_SYSTEMS, *(f"{name}_llama" for name in _GTR_SYSTEMS))
"""Their captions say that (G) is GPT-4, so there are also curves of the other model."""
_GTR_COUNTS = (
    (8743, 227, 112, 39, 9),
    (3515, 400, 209, 70, 11),
    (3189, 668, 450, 189, 47),
    (1625, 630, 476, 284, 52),
    (620, 414, 369, 284, 52),
)
_GTR_SAID = "The paper's text says that both agree on 66.84% of the pairs after a threshold of 2; the counts of its Table 4 give 66.51%"


def _after(threshold: int, counts: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The counts of binary labels."""
    sides = (slice(None, threshold), slice(threshold, None))
    return tuple(tuple(sum(sum(row[columns]) for row in counts[rows]) for columns in sides) for rows in sides)


_IRLAB_1 = Part("irlab_1", 2024, listed="irlab-2024")
_INFOSENSE_2 = Part("infosense_2", 2024)
_INFOSENSE_RUNS = ("wghtdrerank_1", "wghtdrerank_2", "short_long_2", "short_long_3")

_PTKB_DEVIATIONS = (
    "ptkb_none; 0; .1835±.0065; .1760±.0062; .3996±.0123; .1570±.0058; .0745±.0021; .4064±.0046; .0757±.0023",
    "ptkb_all; 0; .1767±.0099; .1680±.0076; .3923±.0136; .1552±.0037; .0753±.0023; .4047±.0028; .0745±.0018",
    "ptkb_human; 0; .1829±.0064; .1766±.0077; .4099±.0076; .1578±.0050; .0758±.0031; .4101±.0036; .0749±.0025",
    "ptkb_str; 0; .1795±.0124; .1711±.0104; .3901±.0199; .1564±.0046; .0756±.0041; .4093±.0030; .0755±.0025",
    "ptkb_str; 1; .1770±.0064; .1731±.0059; .4026±.0110; .1609±.0032; .0777±.0032; .4065±.0067; .0771±.0014",
    "ptkb_str; 3; .1763±.0142; .1705±.0110; .4008±.0309; .1566±.0050; .0747±.0023; .4105±.0048; .0749±.0025",
    "ptkb_str; 5; .1832±.0117; .1762±.0099; .4050±.0169; .1542±.0048; .0737±.0038; .4064±.0059; .0747±.0030",
    "ptkb_sar; 0; .1854±.0091; .1768±.0060; .4058±.0199; .1564±.0026; .0735±.0018; .3964±.0058; .0735±.0013",
    "ptkb_sar; 1; .1897±.0159; .1812±.0105; .4072±.0221; .1639±.0044; .0784±.0026; .4179±.0038; .0784±.0023",
    "ptkb_sar; 3; .1770±.0074; .1724±.0050; .4036±.0159; .1554±.0038; .0752±.0034; .4170±.0081; .0738±.0031",
    "ptkb_sar; 5; .1780±.0134; .1745±.0084; .3982±.0120; .1649±.0037; .0793±.0011; .4270±.0079; .0777±.0022",
    "ptkb_none_queries; 0; .2095±.0096; .2046±.0060; .4575±.0114; .1837±.0026; .0948±.0024; .4709±.0070; .0972±.0027",
    "ptkb_all_queries; 0; .2122±.0062; .2020±.0036; .4545±.0140; .1810±.0035; .0912±.0012; .4754±.0076; .0934±.0011",
    "ptkb_human_queries; 0; .2158±.0135; .2098±.0115; .4594±.0197; .1899±.0053; .0948±.0041; .4799±.0037; .0980±.0031",
    "ptkb_str_queries; 0; .2110±.0101; .2005±.0069; .4466±.0134; .1805±.0039; .0890±.0018; .4673±.0065; .0933±.0021",
    "ptkb_str_queries; 1; .2110±.0106; .2029±.0090; .4499±.0186; .1822±.0020; .0910±.0019; .4725±.0070; .0955±.0010",
    "ptkb_str_queries; 3; .2049±.0142; .1973±.0103; .4515±.0273; .1823±.0056; .0907±.0019; .4718±.0113; .0926±.0028",
    "ptkb_str_queries; 5; .1992±.0064; .1945±.0066; .4359±.0037; .1814±.0042; .0914±.0040; .4693±.0071; .0913±.0025",
    "ptkb_statement; 0; .3733±.0035; .3127±.0006; .6436±.0100; .1922±.0019; .0963±.0026; .4310±.0044; .1024±.0024",
)
"""On the 176 turns of 2023, mean and deviation over five runs. The last row is their automatic selection, an oracle by nDCG@3."""

PAPERS: dict[str, Paper] = {
    "generate_then_retrieve": Paper(
        "Abbasiantaeb and Aliannejadi, Generate then Retrieve: Conversational Response Retrieval Using LLMs as Answer and Query Generators",
        "https://arxiv.org/abs/2403.19302v1",
        "Pyserini (Lucene)",
        {
            "1": (_GTR_1,),
            "2": Matrix(2023, GPT_35, 2, _after(2, _GTR_COUNTS), f"{_GTR_SAID}, which are those shown here: our copy lacks Table 2's own."),
            "3": (_GTR_3,),
            "4": Matrix(2023, GPT_35, None, _GTR_COUNTS, f"{_GTR_SAID}."),
            "5": Prompts("Table 5: AQD and AD with GPT-4", ("answer", "queries_given_answer")),
            "6": Prompts("Table 6: QD with GPT-4", ("queries",)),
            "7": Prompts("Table 7: QR with both models", ("rewrite",)),
            "8": Prompts("Table 8: relevance judgements with GPT-3.5, one-shot", ("judge",)),
            "9": Prompts("Table 9: AQD with LLaMA, two-shot; the examples are ours", ("queries_given_answer_llama",)),
            "10": Prompts("Table 10: QD with LLaMA, one-shot; the example is ours", ("queries_llama",)),
        },
        {
            "figure-2": Figure("judged", _GTR_3, tuple(_GTR_3.systems), "Judged@10"),
            "figure-3": Figure("conversation", _GTR_3, _GTR_CURVES, "nDCG"),
            "figure-4": Figure("depth", _GTR_3, _GTR_CURVES, "nDCG"),
        },
        (
            ("Which 133 of the 176 judged turns of 2023 are scored isn't published.", "Both counts are shown; `--turns FILE` names them."),
            ("GPT-3.5's labels behind Table 1 aren't published.", "`ikat judge` makes labels of the same kind; `--qrels FILE` takes them."),
            (
                "QR with LLaMA, and LLaMA10, see all past messages.",
                "Appendix A.3 says so of QR; the last response alone is for answers and queries.",
            ),
            ("AQD_A re-ranks the union of the candidates, then cuts to 1000.", "Only so can recall rise as it does in Table 1."),
            ("A query list without a usable query falls back to the rewrite or utterance.", "The paper is silent; the ledger counts it."),
            (
                "The examples of the few-shot prompts are ours.",
                "The paper prints its own as text in Tables 9 and 10; its sentences belong to its authors.",
            ),
            ("ConvGQR and monoT5 retrieve by BM25 here.", "The paper doesn't name their retrievers."),
            ("Figures 3 and 4 have nDCG by NIST's judgements.", "The paper names neither; both are a guess."),
            (
                "The judge also writes a reason.",
                "The paper's prompt asks for a score alone; our reason follows the label, so it can't change it.",
            ),
            (
                "The released topics have 13.28 turns a conversation.",
                "Section 4 says 13.04, which would be 326 of the 332 turns of the 25 conversations.",
            ),
            (
                "NIST judged 34,183 pairs of the 176 turns, and Table 4 counts 22,684.",
                "GPT-3.5's own pool has 19,413 pairs of the 133 turns (section 4).",
            ),
            (
                "By Table 3, 72.85 % of the top 10 is unjudged, over the 13 rows outside the track's pool.",
                "Section 1 says 72.78 % and doesn't name its rows.",
            ),
        ),
    ),
    "irlab_2024": Paper(
        "Lupart, Abbasiantaeb and Aliannejadi, IRLab@iKAT24: Learned Sparse Retrieval with Multi-aspect LLM Query Generation for "
        "Conversational Search",
        "https://arxiv.org/abs/2411.14739",
        "an engine that the paper doesn't name",
        {
            "1": (_IRLAB_1,),
            "2": Prompts("Table 2: several queries with GPT-4", ("queries",)),
            "3": Prompts("Table 3: the response from the passages", ("respond",)),
            "4": Prompts("Table 4: the statements that matter", ("statements_copies",)),
        },
        {
            "figure-2": Figure("depth", _IRLAB_1, tuple(_IRLAB_1.systems), "nDCG"),
            "figure-3": Figure("conversation", _IRLAB_1, tuple(_IRLAB_1.systems), "nDCG"),
        },
        (
            ("The pool of the queries is interleaved and cut to 1000 before it is re-ranked.", "The paper leaves the union's order open."),
            (
                "Scores of the ensemble are min-max normalised per turn and averaged.",
                "ranx's way, which the paper names; a missing one is 0.",
            ),
            (
                "A copied statement matches exactly, then normalised, then at a similarity of .9.",
                "The paper doesn't say how copies become ids.",
            ),
            (
                "1000 passages of the pool are re-ranked.",
                'Section 3.1 re-ranks all retrieved passages, section 4.2 the top 1000: we follow 4.2. `pool="union"` follows 3.1.',
            ),
            (
                "The 13 conversations of the 103 turns have 16.85 statements on average.",
                "Section 2 says 16.8 of 13 topics; the 17 released conversations have 16.94.",
            ),
        ),
    ),
    "infosense_2024": Paper(
        "De Lima and Yang, Passage Query Methods for Retrieval and Reranking in Conversational Agents",
        "https://arxiv.org/abs/2503.00238",
        "Pyserini (Lucene)",
        {
            "1": Listing(
                ("run", "approach", "passage queries", "re-rankers", "LLM"),
                (
                    "wghtdrerank_1; Weighted Reranking; 1-4; MiniLM; Meta-Llama-3.1-8B-Instruct",
                    "wghtdrerank_2; Weighted Reranking; 1-4; MSMDistilbert, MiniLM; Meta-Llama-3.1-8B-Instruct",
                    "short_long_2; Short and Long Passages; 2; MSMDistilbert, MiniLM; Meta-Llama-3.1-8B-Instruct",
                    "short_long_3; Short and Long Passages; 2; MSMDistilbert, MiniLM; Meta-Llama-3.1-70B-Instruct",
                ),
            ),
            "2": (_INFOSENSE_2,),
            "3": (
                Part("infosense_3_nist", 2024, STATEMENTS_NIST, PTKB),
                Part("infosense_3_organizers", 2024, STATEMENTS_ORGANISERS, PTKB),
            ),
            "4": (Part("infosense_4", 2024, RESPONSES, ANSWERS, listed="responses-2024"),),
        },
        {"figure-3": Figure("conversation", _INFOSENSE_2, _INFOSENSE_RUNS, "nDCG@5")},
        (
            ("BM25 has k1 1.2 and b .75.", "The authors' code has them; the paper names none."),
            (
                "The whole history is shown; responses of 150 characters or more are summed up, but the last.",
                "The paper sums them up for later turns; the authors' code keeps the last 5 lines.",
            ),
            (
                "Responses and the passages that they read have at most 300 words.",
                "The authors' code limits both; the paper is silent. `ikat submit` cuts responses to the track's 250.",
            ),
            ("BEM is a classifier that the user names.", "BEM's own weights are on TensorFlow Hub; values of another model aren't BEM's."),
            (
                "LLMeval is the share of responses that say what the gold answer says.",
                "The track's prompt isn't released. Its values are shares of 62 or 61 turns, and BERGEN's measure of this name asks that.",
            ),
            ("NIST's PTKB judgements of 2024 are missing.", "They aren't released; the organisers' come with the topics."),
            ("LLMs decode greedily (`temperature=0`).", "The authors' code does (`do_sample=False`); the paper is silent."),
            (
                "`short_long_2` neither thinks first nor chooses a style.",
                "The paper gives both to `short_long_3`; the released notebook of `short_long_2` has both, too.",
            ),
            (
                "The question is clarified after the statements are chosen, and by them.",
                "The paper's order; the authors' notebooks clarify first, without statements.",
            ),
            (
                "The first passage query shows all chosen statements.",
                "As in the paper; the notebooks show the best three.",
            ),
            ("Weighted responses see the history.", "As in the paper; in the notebooks they don't."),
            ("The text of a passage is embedded.", "The notebooks embed its raw JSON."),
            (
                "Completions and summaries have no limit of their own.",
                "The notebooks have 512 new tokens and 150 characters; the model's `max_tokens` limits ours.",
            ),
            (
                "Table 2 has 116 turns, Table 3 114.",
                "The paper counts no turns. 116 are in NIST's judgements of 2024, and Table 2's P@20 are multiples of 1/(20 x 116); "
                "114 can't be checked, because NIST's PTKB judgements aren't released.",
            ),
        ),
    ),
    "nii_2024": Paper(
        "Fu, Bedi, Acharya and Kando, NII@TREC iKAT 2024",
        "",
        "Pyserini (Lucene)",
        {
            "I": (Part("nii_I", 2023, turns=176),),
            "II": (Part("nii_II", 2023, STATEMENTS_NIST, PTKB),),
            "III": (Part("nii_III", 2024),),
            "IV": (Part("nii_IV", 2024, STATEMENTS_NIST, PTKB),),
        },
        deviations=(
            (
                "RtG takes every query that the LLM writes for a statement.",
                "The paper sets no limit; the model's `max_tokens` bounds them.",
            ),
            ("Without a chosen statement RtG asks for queries of the rewrite alone.", "The paper is silent."),
            (
                'The row "2023 Baseline" is our run of 1000 passages.',
                "The organisers submitted 3 responses of 3 passages: its score is theirs.",
            ),
            (
                'The row "2023 Best" has no method.',
                "The paper calls it a system and doesn't name it. De Lima and Yang name run-4-GPT-4, with nDCG@3 .4382, as the best run of "
                "2023: that is `aqd`.",
            ),
            (
                "The response of GtR shows no first answer.",
                "As in appendix A8; Algorithm 1, line 26, merges both first answers into it.",
            ),
            (
                "RtG asks for queries of each chosen statement.",
                'Section III.A has them "for each PTKB", and appendix A3 numbers the statements to n.',
            ),
            ("`gtr_claude` responds with Claude.", "Section III.B has GPT-4o respond; a run with one LLM asks no other."),
            (
                "Tables I and II have 176 and 98 turns.",
                "The paper counts none. These are the turns in NIST's judgements of 2023 of passages and of statements.",
            ),
        ),
    ),
    "cfda_2025": Paper(
        "Chang et al., CFDA & CLIP at TREC iKAT 2025",
        "https://arxiv.org/abs/2509.15588",
        "the SPLADE index of the authors' repository",
        {str(year): (Part(f"cfda_on_{year}", year),) for year in (2023, 2024)},
        deviations=(
            ("The scores come from AdaRewriter's choice of ten LLM4CS rewrites.", "Its weights aren't public; ours is BestQuery's choice."),
            (
                "The scores come from files in the authors' repository.",
                "The text of the paper could not be read; 2025 has no public judgements.",
            ),
            ("The fused system has no row.", "Its run is of 2025 alone: the repository has no scores of it."),
            (
                "Statements, summaries and responses are written for the raw utterance.",
                "The code of the authors' automatic run shows the manual rewrite (`resolved_utterance`).",
            ),
            (
                "The list of CHIQ's rewrite is the first one of the fusion.",
                "Theirs is the list of the LLM4CS rewrite (`run_rrf_rerank.sh`); this decides ties alone.",
            ),
            (
                "Rows with `choice` or `gpt4o` in their names have no method.",
                "They search for AdaRewriter's choice or for GPT-4o's single rewrite; those that end in `splade` have no re-ranker.",
            ),
        ),
    ),
    "ptkb_2024": Paper(
        "Mo et al., How to Leverage Personal Textual Knowledge, run again by Lupart et al., Investigating LLM Variability in Personalized "
        "Conversational Information Retrieval",
        "https://arxiv.org/abs/2510.03795",
        "Pyserini (Lucene)",
        {
            **{str(year): (Part(f"ptkb_on_{year}", year),) for year in (2023, 2024)},
            "deviations": Listing(
                ("system", "examples", "nDCG@3", "nDCG@5", "MRR", "P@20", "Recall@20", "Recall", "mAP"), _PTKB_DEVIATIONS
            ),
        },
        deviations=(
            (
                "The scores come from files in the authors' repository.",
                "The texts of both papers could not be read; it has means of five runs.",
            ),
            ("Rows with examples have no method of their own.", "`shots=1`, `3` or `5` of `ptkb_str` and `ptkb_sar` makes them in Python."),
            ("Automatic selection is an oracle.", "The judgements choose the statement: `ptkb_statement`, then an oracle by nDCG@3."),
            (
                "The rows are those of BM25.",
                "The repository has results of ANCE for the same prompts and years, too: "
                "`data/batch/gpt-4o-mini/*/aggregated/aggregated_ance_*.json`.",
            ),
        ),
    ),
    "disco_2025": Paper(
        "Lupart, Aliannejadi and Kanoulas, DiSCo",
        "https://arxiv.org/abs/2410.14609",
        "the authors' SPLADE index",
        {"card": (Part("disco_card", 2023),)},
        deviations=(
            ("The scores come from the description of the model.", "The paper's text could not be read."),
            ("How many turns they are means over isn't said.", "So no difference is shown."),
        ),
    ),
    "organizers_2025": Paper(
        "The organisers' baselines of 2025",
        "https://github.com/SimonLupart/ikat-baseline",
        "Pyserini (Lucene) for BM25, the authors' index for SPLADE",
        {str(year): (Part(f"baselines_2025_on_{year}", year),) for year in (2023, 2024)},
        deviations=(
            ("The scores come from the repository's README.", "Recall and MRR count labels from 2; 2025 has no public judgements."),
            ("A line of 2024 is omitted.", "It repeats that of 2023 to the last digit."),
        ),
    ),
}


ROMAN = {"1": "I", "2": "II", "3": "III", "4": "IV"}


def find_paper(name: str) -> Paper:
    """The paper with this name.

    Raises:
        UsageError: when there is none.

    Example:
        >>> list(find_paper("nii_2024").tables)
        ['I', 'II', 'III', 'IV']
    """
    if name not in PAPERS:
        raise UsageError(f"there is no paper {name!r}: choose one of {', '.join(PAPERS)}")
    return PAPERS[name]


def find_table(name: str, number: str) -> Found | Figure:
    """A paper's table or figure. ``4`` means ``IV`` if the paper uses Roman numbers.

    Raises:
        UsageError: when there is no such paper, or it has no such table.

    Example:
        >>> find_table("nii_2024", "I")[0].year, find_table("nii_2024", "4")[0].year
        (2023, 2024)
    """
    paper = find_paper(name)
    known: dict[str, Found | Figure] = {**paper.tables, **paper.figures}
    number = number if number in known else ROMAN.get(number, number)
    if number not in known:
        raise UsageError(f"{name} has no table {number!r}: choose one of {', '.join(known)}")
    return known[number]
