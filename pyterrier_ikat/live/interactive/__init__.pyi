from .client import TrackServer as TrackServer
from .interactive_run import InteractiveRun as InteractiveRun
from .interactive_run import interact as interact
from .playing import Memory as Memory
from .response_limits import count_spacy_tokens as count_spacy_tokens
from .response_limits import cut_to_tokens as cut_to_tokens
from .server_answers import UserMessage as UserMessage
from .standing import interactive_status as interactive_status
