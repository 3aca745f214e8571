"""Every table and figure of the papers, reproduced with the user's resources and set beside the published scores."""

from .published import PAPERS as PAPERS
from .reproduction import Reproduction as Reproduction
from .table import PaperTable as PaperTable
