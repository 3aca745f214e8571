"""Turns that also have what ``memory_facts`` reads."""


def facts_of(ptkb):
    """Each statement of a PTKB as a fact: fact 0 of that statement."""
    return {f"{number}%p0": text for number, text in ptkb.items()}


def with_facts(turns):
    """The turns with the facts of their PTKBs."""
    return turns.assign(qfacts=turns["qptkb"].map(facts_of))
