"""A bi-encoder encodes each text once per process, whatever index, cache or folder it is for: MiniLM takes seconds for the sample."""

from functools import wraps

import numpy as np
from sentence_transformers import SentenceTransformer


def install():
    """From now on, for all models of the process."""
    SentenceTransformer.encode = _remembering(SentenceTransformer.encode)


def _remembering(encode):
    remembered = {}

    @wraps(encode)
    def encoded(self, inputs, **options):
        key = (id(self), repr(sorted(options.items())))
        new = [text for text in dict.fromkeys(inputs) if (key, text) not in remembered]
        if new:
            remembered.update(zip([(key, text) for text in new], encode(self, inputs=new, **options), strict=True))
        return np.stack([remembered[key, text] for text in inputs])

    return encoded
