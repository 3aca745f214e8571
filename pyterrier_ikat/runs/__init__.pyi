from .answered_turn import ShownPassage as ShownPassage
from .answered_turn import Turn as Turn
from .folder import RunFolder as RunFolder
from .log import Dialogue as Dialogue
from .log import Log as Log
from .run_file import read_run as read_run
from .run_file import strictly_decreasing as strictly_decreasing
from .run_file import write_run as write_run
