from .dialogues import Dialogue as Dialogue
from .dialogues import DialogueLog as DialogueLog
from .dialogues import DialogueTurn as DialogueTurn
from .folder import RunFolder as RunFolder
from .trec import read_run as read_run
from .trec import strictly_decreasing as strictly_decreasing
from .trec import write_run as write_run
