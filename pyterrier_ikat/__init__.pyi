"""The public names, and where each is; ``__init__.py`` loads them at first use. A star stands for the ``__all__`` of that room."""

from . import evaluation as evaluation
from . import live as live
from . import methods as methods
from . import runs as runs
from . import show as show
from . import study as study
from . import submit as submit
from .conversations import TextLoader as TextLoader
from .conversations import conversation as conversation
from .conversations import dataset as dataset
from .conversations import merge_qrels as merge_qrels
from .conversations.passages import PassageFiles as PassageFiles
from .conversations.passages import chunk_documents as chunk_documents
from .distribute import on_ray as on_ray
from .errors import DataError as DataError
from .errors import IkatError as IkatError
from .errors import UsageError as UsageError
from .evaluation import Judge as Judge
from .evaluation import agreement as agreement
from .evaluation import breakdown as breakdown
from .evaluation import evaluate as evaluate
from .evaluation import measures as measures
from .evaluation import pool_runs as pool_runs
from .fuse import *
from .generate import *
from .live import Chat as Chat
from .live import interact as interact
from .live import serve as serve
from .live import simulate as simulate
from .live import simulation as simulation
from .llms import llm as llm
from .memory import UserMemory as UserMemory
from .methods import method as method
from .rank import *
from .retrieve import RM3 as RM3
from .retrieve import BM25Rerank as BM25Rerank
from .retrieve import DenseIndex as DenseIndex
from .retrieve import GivenRanking as GivenRanking
from .retrieve import Index as Index
from .retrieve import PassageIndex as PassageIndex
from .retrieve import Splade as Splade
from .retrieve import SpladeIndex as SpladeIndex
from .show import Report as Report
from .show import report as report
from .study import experiment as experiment
from .study import plan as plan
from .study import run as run

__version__: str
