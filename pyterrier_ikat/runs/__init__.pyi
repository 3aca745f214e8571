from .answered_turn import Source as Source
from .answered_turn import Turn as Turn
from .folder import RunFolder as RunFolder
from .folder import read_run as read_run
from .folder import strictly_decreasing as strictly_decreasing
from .folder import write_run as write_run
from .log import Dialogue as Dialogue
from .log import Log as Log
