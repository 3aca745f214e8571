"""A simulation that is killed for good goes on where it was, and asks no model anything twice."""

import pytest
from live.simulation.players import user
from trust.killing import killed_before

import pyterrier_ikat as ikat
from pyterrier_ikat.runs import Log

USERS = [user("u1", need="tea"), user("u2", need="mate", patience=2)]


class Model:
    """Plays the users, answers, and judges; writes down each request."""

    def __init__(self, asked):
        self.asked = asked

    def generate(self, chats):
        said = []
        for chat in chats:
            text = str(chat)
            judges = "# Questions" in text
            with self.asked.open("a") as file:
                file.write(f"{hash(text)}\n")
            open_rubrics = text.count("Which leaf") + text.count("At which heat")
            said.append(
                str(["no"] * open_rubrics).replace("'", '"') if judges else f"{len(text)} words?"
            )
        return said


def simulated(place):
    model = ikat.llm(Model(place / "asked.txt"), identity="kills", cache=place / "cache.sqlite")
    done = ikat.simulate(
        {"answer": ikat.Answer(model), "expand": ikat.Answer(model, words=50)},
        USERS,
        model,
        model,
        out=place / "out",
        threads=1,
    )
    model.close()
    return done.table


def logged(place):
    said = {}
    for name in ("answer", "expand"):
        for one in Log(place / "out" / name).dialogues():
            said[name, one.session] = (
                [(turn.number, turn.utterance, turn.response, turn.met) for turn in one.turns],
                one.end,
            )
    return said


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    place = tmp_path_factory.mktemp("undisturbed")
    simulated(place)
    return logged(place), len((place / "asked.txt").read_text().splitlines())


@pytest.mark.parametrize("number", [1, 6, 9, 15])
def test_a_killed_simulation_goes_on_and_asks_nothing_twice(tmp_path, number, undisturbed):
    assert killed_before(number, tmp_path / "out", lambda: simulated(tmp_path))
    table = simulated(tmp_path)
    conversations, calls = undisturbed
    assert logged(tmp_path) == conversations
    assert len((tmp_path / "asked.txt").read_text().splitlines()) == calls
    assert table["turns"].tolist() == [2.5, 2.5]
