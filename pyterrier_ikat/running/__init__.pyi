from .comparison import plan as plan
from .in_folders import AlikeWarning as AlikeWarning
from .in_folders import run as run
from .in_memory import experiment as experiment
from .systems import Resources as Resources
