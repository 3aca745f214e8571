from .in_folders import AlikeWarning as AlikeWarning
from .in_folders import run as run
from .in_memory import experiment as experiment
from .planned import plan as plan
from .samples import SamplesWarning as SamplesWarning
from .systems import Resources as Resources
