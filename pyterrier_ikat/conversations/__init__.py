"""Where turns come from: the turn frame, topic readers, datasets, passages and the bundled sample."""

from .datasets import dataset
from .frame import conversation
from .passages import TextLoader
from .qrels import read_qrels
from .topics import Conversation, Turn, answers_frame, provenance_qrels, ptkb_qrels, read_topics, topics_frame

__all__ = [
    "Conversation",
    "TextLoader",
    "Turn",
    "answers_frame",
    "conversation",
    "dataset",
    "provenance_qrels",
    "ptkb_qrels",
    "read_qrels",
    "read_topics",
    "topics_frame",
]
