from .client import TrackServer as TrackServer
from .limits import count_spacy_tokens as count_spacy_tokens
from .limits import cut_to_tokens as cut_to_tokens
from .messages import UserMessage as UserMessage
from .runs import InteractiveRun as InteractiveRun
from .runs import interact as interact
from .users import Memory as Memory
