"""A bi-encoder encodes each text once per process, whatever index, cache or folder it is for: MiniLM takes seconds for the sample."""

from functools import wraps

import numpy as np
from sentence_transformers import SentenceTransformer


def install():
    """From now on, for all models of the process."""
    SentenceTransformer.encode = _remembering(SentenceTransformer.encode)


def _remembering(encode):
    @wraps(encode)
    def encoded(self, inputs, **options):
        if options.get("convert_to_tensor") or isinstance(inputs, str) or not all(isinstance(text, str) for text in inputs):
            return encode(self, inputs, **options)
        remembered = vars(self).setdefault("_remembered", {})
        key = (self.max_seq_length, repr(sorted(options.items())))
        new = [text for text in dict.fromkeys(inputs) if (key, text) not in remembered]
        if new:
            remembered.update(zip([(key, text) for text in new], encode(self, new, **options), strict=True))
        return np.stack([remembered[key, text] for text in inputs]) if len(inputs) else encode(self, inputs, **options)

    return encoded
