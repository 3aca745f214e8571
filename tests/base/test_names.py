"""Names that a module lacks: which one is meant, or where it is."""

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import names


@pytest.mark.parametrize(
    ("room", "name", "says"),
    [
        (
            ikat,
            "StatementQueries",
            "pyterrier_ikat has no StatementQueries: it is in ikat.generate",
        ),
        (ikat, "write_run", "it is in ikat.runs"),
        (ikat, "evaluate_responses", "it is in ikat.evaluation"),
        (ikat, "SelectStatement", "did you mean SelectStatements?"),
        (ikat.show, "tabl", "pyterrier_ikat.show has no tabl: did you mean table?"),
        (ikat.evaluation, "evaluat", "did you mean evaluate?"),
        (ikat.evaluation, "Rewrite", "it is in ikat"),
        (ikat.generate, "Rewrit", "did you mean Rewrite?"),
        (ikat.runs, "read_rnu", "did you mean read_run?"),
        (ikat.study, "Resurces", "did you mean Resources?"),
        (ikat.submit, "write_submision", "did you mean write_submission?"),
        (ikat.live, "serv", "did you mean serve?"),
        (ikat.methods, "METHOD", "did you mean METHODS?"),
        (ikat.show, "qqqqq", "dir(pyterrier_ikat.show) lists what it has"),
    ],
)
def test_a_wrong_name_says_which_is_meant_or_where_it_is(room, name, says):
    with pytest.raises(AttributeError) as caught:
        getattr(room, name)
    assert str(caught.value).endswith(says)
    assert not hasattr(room, "__wrapped__")


def test_a_mistyped_operator_is_named():
    with pytest.raises(
        AttributeError, match=r"pyterrier_ikat has no Rewrit: did you mean Rewrite\?"
    ):
        ikat.Rewrit  # noqa: B018
    assert not hasattr(ikat, "__path_of_nothing__")


def test_a_name_of_another_room_is_found_there():
    def told(module, name, known=()):
        return str(names.unknown_name(module, name, known))

    assert told("pyterrier_ikat", "StatementQueries") == (
        "pyterrier_ikat has no StatementQueries: it is in ikat.generate"
    )
    assert told("pyterrier_ikat.show", "RRF") == "pyterrier_ikat.show has no RRF: it is in ikat"
    assert told("pyterrier_ikat.generate", "Rewritee", ["Rewrite"]).endswith("mean Rewrite?")
    assert told("pyterrier_ikat", "Zebra") == (
        "pyterrier_ikat has no Zebra: dir(pyterrier_ikat) lists what it has"
    )
    assert told("pyterrier_ikat", "_private") == "_private"
    assert told("pyterrier_ikat.generate", "Rewrite", []).endswith("it is in ikat")
    own = told("pyterrier_ikat.generate", "StatementQueries", [])
    assert own.endswith("dir(pyterrier_ikat.generate) lists what it has")


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("StatementQueries", "generate"),
        ("SearchIndex", "retrieve"),
        ("evaluate_responses", "evaluation"),
        ("plot_cost", "show"),
        ("write_run", "runs"),
        ("Resources", "study"),
        ("write_submission", "submit"),
        ("METHODS", "methods"),
    ],
)
def test_the_front_names_the_room_of_a_name(name, room):
    error = names.unknown_name("pyterrier_ikat", name, [])
    assert str(error) == f"pyterrier_ikat has no {name}: it is in ikat.{room}"


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("serving", "live"),
        ("track_users", "live.simulation"),
        ("topics_frame", "conversations"),
        ("BatchUnderWay", "llms"),
    ],
)
def test_the_last_rooms_are_searched_for_a_name_too(name, room):
    error = names.unknown_name("pyterrier_ikat.show", name, [])
    assert str(error) == f"pyterrier_ikat.show has no {name}: it is in ikat.{room}"


def test_a_module_loads_its_names_and_refuses_others():
    loaded = []
    get = names.module_getattr("pyterrier_ikat.show", ["draw"], lambda name: loaded.append(name))
    get("draw")
    assert loaded == ["draw"]
    again = names.module_getattr("pyterrier_ikat.show", iter(["draw"]), lambda name: name)
    assert [again("draw"), again("draw")] == ["draw", "draw"]
    with pytest.raises(AttributeError, match="did you mean draw"):
        get("drwa")
    with pytest.raises(AttributeError, match="has no draw"):
        names.module_getattr("pyterrier_ikat.show", ["draw"])("draw")
    assert loaded == ["draw"]
