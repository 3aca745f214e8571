from .interactive_run import InteractiveRun as InteractiveRun
from .interactive_run import interact as interact
from .player import InteractiveWarning as InteractiveWarning
from .response_limits import count_spacy_tokens as count_spacy_tokens
from .response_limits import cut_to_tokens as cut_to_tokens
from .track_server import ServerDown as ServerDown
from .track_server import UserMessage as UserMessage
