"""TREC CAsT by year: 2019 and 2020 through ir_datasets, 2021 and 2022 from the organisers' files."""

from collections.abc import Callable
from functools import cached_property

import pandas as pd

from ..errors import DataError
from .download import DATA_FOLDER, data_file, data_folder
from .ikat_dataset import IkatDataset, Qrels
from .irds import IrdsDataset
from .passages import PassageFiles, collection_files
from .qrels import read_qrels
from .topic_files import read_topics
from .topics import Conversation, with_automatic

PREFIX = "cast:"
TOPICS = {2021: "2021_manual_evaluation_topics_v1.0.json", 2022: "2022_evaluation_topics_tree_v1.0.json"}
AUTOMATIC = {2021: TOPICS[2021], 2022: "2022_automatic_evaluation_topics_tree_v1.0.json"}
QRELS = {2021: "trec-cast-qrels-docs.2021.qrel", 2022: "2022-qrels.txt"}
OFFERS = {
    2021: "the turns of TREC CAsT 2021 with responses, rewrites, NIST qrels of documents, canonical documents",
    2022: "205 turns of TREC CAsT 2022, paths of trees, with responses, rewrites, NIST qrels of passages, gold provenance",
}


class CastDataset(IkatDataset):
    """TREC CAsT 2021 or 2022: topics, rewrites and qrels from the organisers' files, under their published names.

    The history of a turn of 2021 is the earlier utterances and canonical passages, that of a turn of 2022 the path of messages above it in
    the topic's tree. The qrels of 2021 judge documents, as the passages' numbers differed between participants: index documents. Binary
    measures of 2021 count labels of 2 and more; NIST's summaries of 2022 are for 1 and more (lenient) and for 2 and more (strict).

    Args:
        year: 2021 or 2022.
    """

    topic_variants = (None, "manual", "automatic")

    def __init__(self, year: int):
        self.name, self.edition, self.summary = f"{PREFIX}{year}", year, OFFERS[year]

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The topics; several turns of a tree have the same number, each has its own qid, such as ``132_2-1``."""
        return read_topics(data_file(TOPICS[self.edition]))

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame, see :meth:`IkatDataset.get_topics`."""
        if variant != "automatic" or AUTOMATIC[self.edition] == TOPICS[self.edition]:
            return super().get_topics(variant)
        return with_automatic(super().get_topics(), read_topics(data_file(AUTOMATIC[self.edition])))

    def info_url(self) -> str:
        """The track's page."""
        return "https://www.treccast.ai/"

    def _qrels(self) -> Qrels:
        return {None: lambda: read_qrels(data_file(QRELS[self.edition])), "provenance": self._provenance}

    def _passages(self) -> tuple[PassageFiles, int]:
        folder = data_folder() / f"cast_{self.edition}_collection"
        files = collection_files(folder)
        if not files:
            raise DataError(
                f"no passages (*.jsonl, *.jsonl.gz, *.jsonl.bz2) in {folder}; make them of MS MARCO, KILT and the Washington Post by the "
                f"organisers' trec-cast-tools, and put the files into {folder.name}/ in the folder that {DATA_FOLDER} names"
            )
        return PassageFiles(files), 0

    def __repr__(self) -> str:
        return f"ikat.dataset({self.name!r})"


CAST: dict[str, Callable[[], IkatDataset]] = {
    f"{PREFIX}2019": lambda: IrdsDataset("trec-cast/v1/2019", "cast:2019"),
    f"{PREFIX}2020": lambda: IrdsDataset("trec-cast/v1/2020", "cast:2020"),
    f"{PREFIX}2021": lambda: CastDataset(2021),
    f"{PREFIX}2022": lambda: CastDataset(2022),
}
