"""Users, systems and players of the tests of simulations."""

import json

import pandas as pd

import pyterrier_ikat as ikat
from pyterrier_ikat.live.simulation import ScriptedPlayer, SimulatedUser
from pyterrier_ikat.live.simulation.simulation import Simulation
from pyterrier_ikat.llms import Backend, Reply
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.runs import Dialogue, Log

SECRET_NEED = "a tea for the evening"
SECRET_RUBRICS = {"r1": "Which leaf is free of stimulants?", "r2": "At which heat is it brewed?"}
PHRASES = {"r1": "rooibos", "r2": "95 degrees"}


def user(name="u1", **given):
    """A user with two rubrics and three turns of patience."""
    known = {
        "persona": ["I sleep badly."],
        "need": SECRET_NEED,
        "rubrics": SECRET_RUBRICS,
        "patience": 3,
    }
    return SimulatedUser(name, **(known | given))


class Phrases:
    """Judges that a rubric is met when the text contains its phrase, whatever the case."""

    def __init__(self, phrases=PHRASES):
        self.phrases = self.identity = phrases

    def met(self, situation):
        text = situation.text.casefold()
        return [rubric for rubric in situation.open if self.phrases.get(rubric, "-") in text]


class Says(Operator):
    """A system that writes the same response in every turn, and keeps the frames that it gets."""

    schematic = {"label": "Says"}

    def __init__(self, text=""):
        super().__init__()
        self.text = text
        self.seen = []

    def transform(self, inp):
        if len(inp):  # PyTerrier looks at the columns with an empty frame
            self.seen.append(inp.to_dict("records"))
        return inp.assign(qanswer=self.text)


class SaysOnePerTurn(Operator):
    """A system whose n-th response is the n-th text."""

    schematic = {"label": "Says"}

    def __init__(self, *texts):
        super().__init__()
        self.texts = texts

    def transform(self, inp):
        return inp.assign(qanswer=[self.texts[turn - 1] for turn in inp["qturn"]])


class Finds(Operator):
    """A system that finds passages and writes nothing."""

    schematic = {"label": "Finds"}

    def __init__(self, *texts):
        super().__init__()
        self.texts = texts

    def transform(self, inp):
        ranks = range(len(self.texts))
        found = {
            "docno": [f"d{rank}" for rank in ranks],
            "text": self.texts,
            "score": [1.0 / (1 + rank) for rank in ranks],
            "rank": ranks,
        }
        return pd.DataFrame({"qid": inp["qid"].iloc[0], "query": inp["query"].iloc[0], **found})


class Wrote(Backend):
    """A live model that answers by stage with texts or replies, and keeps the requests."""

    replays = False

    def __init__(self, **by_stage):
        self.model = "wrote"
        self.identity = {"provider": "fake", "model": f"wrote {id(self)}", "params": {}}
        self.asked = []
        self.left = {stage: list(said) for stage, said in by_stage.items()}

    def complete(self, requests):
        self.asked += requests
        said = [self.left[request.stage].pop(0) for request in requests]
        replies = []
        for one in said:
            if isinstance(one, str):
                replies.append(Reply(one, self.model, "stop"))
            else:
                replies.append(one)
        return replies


class Chatty:
    """Says something for itself in each turn, and remembers the situations."""

    def __init__(self, text="And {user} {turn}?"):
        self.text = text
        self.asked = []
        self.identity = "chatty"

    def say(self, situation):
        self.asked.append(situation)
        return self.text.format(user=situation.user.id, turn=situation.turn)


ALL = Says("Rooibos; brew it at 95 degrees.")


def as_text(records):
    return json.dumps(records, default=str)


USERS = [user("u1"), user("u2", patience=2)]


def simulated(out, systems, users=USERS, player=None, judged=None, **more):
    """The table of a simulation by script, by the names of its systems."""
    return ikat.simulate(
        systems, users, player or ScriptedPlayer(), judged or Phrases(), out=out, **more
    ).table.set_index("name")


def dialogues(folder):
    """The dialogues of a log by their sessions."""
    return {one.session: one for one in Log(folder).dialogues()}


def simulate_script(out, systems, users=None, player=None, judge=None, **options):
    """Simulate two users who speak by script."""
    users = users or [user("u1"), user("u2", patience=2)]
    return ikat.simulate(
        systems, users, player or ScriptedPlayer(), judge or Phrases(), out=out, **options
    )


def simulate_two_turns(out, systems, users=None, player=None, judge=None, **options):
    """Simulate a user who has patience for two turns."""
    users = users or [user(patience=2)]
    player = player or Chatty("And?")
    return ikat.simulate(systems, users, player, judge or Phrases(), out=out, **options)


def simulate_one_turn(out, system, users=None, player=None, judge=None, **options):
    """Simulate one turn with one system, ``s``."""
    users = users or [user(patience=1)]
    player = player or Chatty("And?")
    return ikat.simulate({"s": system}, users, player, judge or Phrases(), out=out, **options)


def simulate_two_users(out, systems, **options):
    """Simulate one turn of each of two users."""
    users = [user("u1", patience=1), user("u2", patience=1)]
    return ikat.simulate(systems, users, Chatty("And?"), Phrases(), out=out, threads=1, **options)


def rules(**changes):
    """The rules of a simulation by need, with three passages."""
    given = {
        "users": [user()],
        "player": ScriptedPlayer(),
        "judge": Phrases(),
        "by": "need",
        "passages": 3,
        "show_persona": False,
        "history": None,
    }
    return Simulation(**given | changes)


def dialogue_of(*turns):
    dialogue = Dialogue("u1", "u1")
    dialogue.turns += turns
    return dialogue
