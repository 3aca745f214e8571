from .interactive_run import interact as interact
from .player import InteractiveRun as InteractiveRun
from .player import InteractiveWarning as InteractiveWarning
from .track_server import ServerDown as ServerDown
from .track_server import UserMessage as UserMessage
from .track_server import count_spacy_tokens as count_spacy_tokens
from .track_server import cut_to_tokens as cut_to_tokens
