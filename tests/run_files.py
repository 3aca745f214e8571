"""The files of a run folder without what differs from one run to the next: the seconds of the ledger, and so its checksum."""

import json

import pandas as pd


def files_without_time(folder):
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    about = json.loads(found["run.json"])
    del about["sha256"]["ledger.csv"]
    return found | {"run.json": about, "ledger.csv": pd.read_csv(folder / "ledger.csv").drop(columns="seconds").to_csv()}
