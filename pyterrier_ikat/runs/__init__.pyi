from .answered_turn import Source as Source
from .answered_turn import Turn as Turn
from .folder import RunFolder as RunFolder
from .log import Dialogue as Dialogue
from .log import Log as Log
from .run_files import read_run as read_run
from .run_files import strictly_decreasing as strictly_decreasing
from .run_files import write_run as write_run
