"""The experiment table for a paper."""

import pandas as pd

from ..errors import DataError
from ..evaluation.experiment_table import experiment_table, measures_of
from ..tables import Table


def table(evaluated: pd.DataFrame) -> Table:
    """The experiment table for a paper: the best of each measure bold, the second best underlined, significant differences marked.

    Source: IRLab@iKAT24, Table 1, which marks best and second best in this way.

    Scores that read the same with four decimals share their mark. An arrow up says that a score is significantly higher than the
    baseline's, an arrow down that it is significantly lower.

    Args:
        evaluated: what ``ikat.experiment``, ``ikat.evaluation.evaluate`` or ``ikat.evaluation.evaluate_ptkb`` returned.

    Raises:
        DataError: when it is no such table, or its rows are means over different numbers of turns.

    Example:
        >>> import pandas as pd
        >>> found = pd.DataFrame({"name": ["QR", "AQD"], "nDCG@5": [0.25, 0.5], "turns": [24, 24]})
        >>> print(table(found).markdown())
        | system | nDCG@5 |
        | :--- | ---: |
        | QR | <ins>.2500</ins> |
        | AQD | **.5000** |
        <BLANKLINE>
        Mean over 24 judged turns; a turn without results counts 0. Best bold, second best underlined.
        <BLANKLINE>
    """
    if not {"name", "turns"} <= set(evaluated.columns) or evaluated.empty or not measures_of(dict(evaluated.iloc[0])):
        found = ", ".join(map(str, evaluated.columns)) or "no column"
        raise DataError(f"this is no experiment table (it has {found}): give what ikat.experiment returned")
    turns = evaluated["turns"].unique()
    if len(turns) > 1:
        raise DataError(f"the rows are means over different turns ({', '.join(map(str, turns))} of them): make a table of each")
    shown = experiment_table(evaluated.to_dict("records"))
    return Table(evaluated, shown.columns, shown.notes)
