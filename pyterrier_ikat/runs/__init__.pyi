from .answered_turn import Source as Source
from .answered_turn import Turn as Turn
from .folder import RunFolder as RunFolder
from .log import Dialogue as Dialogue
from .log import Log as Log
from .trec import read_run as read_run
from .trec import strictly_decreasing as strictly_decreasing
from .trec import write_run as write_run
