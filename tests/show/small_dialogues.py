"""Logs of conversations of two systems with four users, small enough to be worked out by hand."""

from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Log, ShownPassage, Turn

QUESTIONS = {"r1": "Which tea?", "r2": "How hot?", "r3": "How long?", "r4": "Which cup?"}
# user -> its number of rubrics; system -> user -> (the rubrics met in each turn, how it ended)
RUBRICS = {"u1": 2, "u2": 1, "u3": 4, "u4": 1}
SYSTEMS = {
    "one": {
        "u1": (["r1", "r2"], "satisfied"),
        "u2": (["r1"], "satisfied"),
        "u3": (["", "r2"], "out of patience"),
        "u4": ([""], "turn limit"),
    },
    "two": {
        "u1": (["", "r1"], "out of patience"),
        "u2": (["r1"], "satisfied"),
        "u3": (["r1 r2", "r3 r4"], "satisfied"),
    },
}


def questions(user):
    return dict(list(QUESTIONS.items())[: RUBRICS[user]])


def turn(system, user, number, met, **given):
    """A turn: `one` takes 2 s, 3 calls and .25 USD; `two` 1 s, a call and an unknown cost."""
    seconds, spend = {"one": (2.0, Spend(3, cost=0.25)), "two": (1.0, Spend(1, cost=None))}[system]
    source = ShownPassage(f"doc-{system}", f"{'filler ' * 40}secret-{user}-{system}", 1.5)
    wrote = {
        "utterance": f"Question {number} of {user}?",
        "response": f"Answer {number} of {system} [1].",
        "sources": (source,),
        "citations": {"doc-else": 0.5, f"doc-{system}": 1.5},
        "rewrite": f"rewrite by {system}",
        "queries": ("tea", "mint tea"),
        "statements": ("I like mint.",) if system == "two" else (),
        "draft": f"draft by {system}" if system == "two" else "",
    }
    fields = {**wrote, "seconds": seconds, "spend": spend, "met": tuple(met.split()), **given}
    return Turn(number, session=user, **fields)


def write_logs(folder, systems=SYSTEMS, **given):
    """The folders of the logs; ``given`` are fields of every turn."""
    folders = []
    for name, users in systems.items():
        folders.append(write_log(folder / name, name, users, **given))
    return folders


def write_log(path, system, users, header=None, **given):
    log = Log.create(
        path,
        {"kind": "simulated", "system": f"{system}()", "user_llm": "fake:user", **(header or {})},
    )
    for user, (met, end) in users.items():
        log.begin(user, f"person of {user}", questions(user))
        for number, ids in enumerate(met, 1):
            log.append(turn(system, user, number, ids, **given))
        if end:
            log.end(user, end)
    return path
