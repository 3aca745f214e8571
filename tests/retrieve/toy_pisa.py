"""PISA's part of a build in plain Python: a measure of what merging gives, and quick."""

from collections import Counter

import numpy as np


def toy_build(folder, texts, *, whole, **_):
    """What PISA would write, for lower-case words, and how many passages there are."""
    folder.mkdir()
    docs = [(docno, Counter(text.split())) for docno, text in texts]
    terms = sorted({term for _, counts in docs for term in counts})
    holders = {term: [place for place, (_, counts) in enumerate(docs) if term in counts] for term in terms}
    lists = {
        "inv.docs": [[len(docs)], *holders.values()],
        "inv.freqs": [[docs[place][1][term] for place in holders[term]] for term in terms],
        "inv.sizes": [[sum(counts.values()) for _, counts in docs]],
    }
    for name, numbers in lists.items():
        (folder / name).write_bytes(b"".join(np.array([len(row), *row], "<u4").tobytes() for row in numbers))
    (folder / "fwd.terms").write_text("".join(f"{term}\n" for term in terms))
    (folder / "fwd.documents").write_text("".join(f"{docno}\n" for docno, _ in docs))
    (folder / "pt_meta.json").write_text("{}")
    whole()
    return len(docs)
