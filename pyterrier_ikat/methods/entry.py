"""One system of a paper: what it needs, how it is built, how a run differs from what the paper did."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import UsageError
from . import baselines, infosense_2024, irlab_2024
from . import generate_then_retrieve as gtr
from .published import TABLES

RESOURCES = ("llm", "second_llm", "rewriter", "expander", "retriever", "reranker")

_MANUAL = (gtr.human_qr, irlab_2024.humanqr, baselines.organizers_2023_manual)
_SEVERAL = (infosense_2024.weighted_reranking, infosense_2024.short_and_long)


class _Named(pt.Transformer):
    """Stands for a resource in a printed expression."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        raise UsageError(f"{self.name} only stands for a resource: build the method with a real one")

    ask = transform

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Method:
    """A system of a paper.

    Attributes:
        name: its name on the command line.
        paper: where it comes from.
        system: the function that makes the expression.
        settings: what this variant fixes of the function's arguments.
        llm_calls: LLM calls per turn, at most; ``+ s`` stands for one per chosen PTKB statement.
        queries: queries to the retriever per turn, at most; ``5s`` stands for five per chosen statement.
        depth: passages per query.
        models: the paper's models and parameters, by resource, as text.
        bm25: the paper's BM25 parameters where they are not k1 0.9, b 0.4.
        roles: which resource takes the place of another one, such as ``{"llm": "second_llm"}``.
        given: whether ``second_llm`` is used.
    """

    name: str
    paper: str
    system: Callable[..., pt.Transformer]
    llm_calls: int | str
    queries: int | str
    settings: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 1000
    models: Mapping[str, str] = field(default_factory=dict)
    bm25: Mapping[str, float] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    given: bool = False

    @property
    def resources(self) -> dict[str, str]:
        """Argument of the function -> the resource that it takes."""
        names = inspect.signature(self.system).parameters
        return {name: self.roles.get(name, name) for name in names if name in RESOURCES and (name != "second_llm" or self.given)}

    @property
    def needs(self) -> list[str]:
        """The resources that it cannot do without."""
        return [resource for argument, resource in self.resources.items() if self._requires(argument)]

    @property
    def takes(self) -> list[str]:
        """The resources that it uses when they are given."""
        return [resource for argument, resource in self.resources.items() if not self._requires(argument)]

    def deviations(self, given: Mapping[str, str | None]) -> list[str]:
        """How the models and the retriever of a run differ from the paper's, one line each.

        Args:
            given: resource -> what the run uses, as text; ``None`` for nothing.
        """
        return [
            f"{resource}: the paper has {paper}, this run {given.get(resource) or 'none'}"
            for resource, paper in self.models.items()
            if given.get(resource) != paper
        ]

    @property
    def manual(self) -> bool:
        """Whether it uses the manual rewrite and so makes a manual run, on ``get_topics("manual")``."""
        return self.settings.get("question") == "qresolved" or bool(self.settings.get("manual")) or self.system in _MANUAL

    def build(self, **given: Any) -> pt.Transformer:
        """The operator expression over the resources in ``given``; those it does not need are left aside.

        Raises:
            UsageError: when a resource it needs is missing, or the retriever returns fewer passages than ``depth``.
        """
        taken = {argument: given.get(resource) for argument, resource in self.resources.items()}
        missing = [self.resources[name] for name, value in taken.items() if value is None and self._requires(name)]
        if missing:
            options = " ".join("--" + name.replace("_", "-") for name in missing)
            raise UsageError(f"method {self.name} needs {' and '.join(missing)}: give {options}")
        if isinstance(several := taken.get("reranker"), list) and self.system not in _SEVERAL:
            raise UsageError(f"method {self.name} takes one re-ranker, not {len(several)}")
        found = getattr(taken["retriever"], "num_results", self.depth)
        if found < self.depth:
            raise UsageError(
                f"method {self.name} takes {self.depth} passages per query, the retriever returns {found}: give it num_results={self.depth}"
            )
        return self.system(**{name: value for name, value in taken.items() if value is not None}, **self.settings)

    def _requires(self, argument: str) -> bool:
        default = inspect.signature(self.system).parameters[argument].default
        return default is inspect.Parameter.empty or argument == "second_llm"

    @property
    def expression(self) -> str:
        """The expression as text, over the names of its resources."""
        built = self.build(**{name: _Named(name) for name in RESOURCES})
        return re.sub(r" >> RankCutoff\((\d+)\)", r" % \1", repr(built)).removeprefix("(").removesuffix(")")

    @property
    def published(self) -> dict[str, dict[str, float]]:
        """Table (a key of ``TABLES``) -> measure -> figure, as printed in the paper."""
        tables = {name: table.frame() for name, table in TABLES.items()}
        return {name: rows.loc[self.name].to_dict() for name, rows in tables.items() if self.name in rows.index}
