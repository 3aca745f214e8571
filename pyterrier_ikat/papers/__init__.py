"""Every table and figure of the papers, reproduced with the user's resources and set beside the published scores."""

from .published import PAPERS as PAPERS
from .table import PaperTable as PaperTable
from .table import Reproduction as Reproduction
