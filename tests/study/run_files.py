"""The files of a run folder without what differs from one run to the next.

The seconds of the ledger.
"""

import pandas as pd


def files_without_time(folder):
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    return found | {
        "ledger.csv": pd.read_csv(folder / "ledger.csv").drop(columns="seconds").to_csv()
    }
