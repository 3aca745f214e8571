"""A submission's check: each defect is named, limits are allowed, and no file makes it raise."""

import gzip
import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from two_turns import DATA, IDS, text_of, turns_of, valid

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.submit import validate
from pyterrier_ikat.submit.checks import check_length
from pyterrier_ikat.submit.problem import Place


def check(tmp_path, year, text):
    path = tmp_path / "run"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return validate(path, DATA[year])


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_a_valid_file_has_no_problem(tmp_path, year):
    assert check(tmp_path, year, text_of(valid(year))) == []


@pytest.mark.parametrize("ids", [["1", "2"], ["1", 2]])
def test_ids_of_2024_may_be_strings_as_in_the_organisers_own_run(tmp_path, ids):
    document = valid(2024)
    document["turns"][0]["responses"][0]["ptkb_provenance"] = ids
    assert check(tmp_path, 2024, text_of(document)) == []


def edit(path, value):
    """Set (or with ``...`` delete) what lies at ``path``, where 0-based numbers index arrays."""

    def change(document):
        *way, last = path
        for step in way:
            document = document[step]
        if value is ...:
            del document[last]
        else:
            document[last] = value

    return change


def several(*changes):
    def change_all(document):
        for change in changes:
            change(document)

    return change_all


# Places in a document of 2023 and 2024: a turn, its response, the passages and statements of it
T = ("turns", 0)
R = ("turns", 0, "responses", 0)
P = (*R, "passage_provenance")
S = (*R, "ptkb_provenance")
A = (0, "responses", 0)  # and the response of a line of 2025
BOTH = (2023, 2024)
ALL = (2023, 2024, 2025)
PASSAGES = "responses[0].passage_provenance"
STATEMENTS = "responses[0].ptkb_provenance"
LONG = "word " * 251


def response(document):
    return turns_of(document)[0]["responses"][0]


def again(document, **changes):
    turns_of(document)[0]["responses"].append({**response(document), **changes})


def passages(*scores):
    entries = []
    for number, score in enumerate(scores):
        docno = f"clueweb22-en0000-00-{number:05}:1"
        entries.append({"id": docno, "text": "", "score": score, "used": True})
    return entries


CASES = [
    # of the run
    (BOTH, edit(("run_name",), ...), "", "run_name", "missing"),
    (BOTH, edit(("run_name",), ""), "", "run_name", "give a name"),
    (BOTH, edit(("run_name",), "my run"), "", "run_name", "white space"),
    (BOTH, edit(("run_name",), "my\trun"), "", "run_name", "white space"),
    (BOTH, edit(("run_type",), "lucky"), "", "run_type", "automatic or manual"),
    ((2023,), edit(("run_type",), "only_response"), "", "run_type", "automatic or manual"),
    ((2024,), edit(("eval_response",), "yes"), "", "eval_response", "valid boolean"),
    (BOTH, edit(("speed",), 1), "", "speed", "no such field"),
    (BOTH, edit(("turns",), {}), "", "turns", "valid list"),
    ((2025,), edit((0, "metadata"), "x"), "1", "metadata", "valid dictionary"),
    ((2025,), edit((0, "metadata", "team_id"), ...), "1", "metadata.team_id", "missing"),
    ((2025,), edit((1, "metadata", "run_id"), "other"), "2", "metadata", "differ"),
    (
        (2025,),
        several(
            edit((0, "metadata", "run_type"), "lucky"), edit((1, "metadata", "run_type"), "lucky")
        ),
        "",
        "metadata.run_type",
        "generation-only",
    ),
    (
        (2025,),
        several(edit((0, "metadata", "team_id"), "a b"), edit((1, "metadata", "team_id"), "a b")),
        "",
        "metadata.team_id",
        "white space",
    ),
    # of the turns
    (ALL, lambda d: turns_of(d).pop(1), "2", "", "the turn is missing"),
    (ALL, lambda d: turns_of(d).append(turns_of(d)[0]), "1", "turn_id", "more than once"),
    (ALL, lambda d: turns_of(d)[0].update(turn_id="77_1"), "77_1", "turn_id", "no such turn"),
    (ALL, lambda d: turns_of(d)[0].update(turn_id="9-1-1"), "9-1-1", "turn_id", "no such turn"),
    (BOTH, edit((*T, "turn_id"), 1), "", "turns[0].turn_id", "valid string"),
    (BOTH, edit(T, "x"), "", "turns[0]", "valid dictionary"),
    # of the responses
    (ALL, lambda d: turns_of(d)[0].update(responses=[]), "1", "responses", "there is no response"),
    (ALL, lambda d: response(d).update(text=" "), "1", "responses[0].text", "empty"),
    (BOTH, edit((*R, "text"), ...), "1", "responses[0].text", "missing"),
    (BOTH, edit((*R, "text"), LONG), "1", "responses[0].text", "251 words, 250 are allowed"),
    ((2025,), edit((*A, "text"), LONG), "1", "responses", "251 words"),
    ((2025,), lambda d: again(d, rank=2, text="w " * 250), "1", "responses", "251 words"),
    (BOTH, edit((*R, "rank"), 0), "1", "responses[0].rank", "at least 1"),
    (BOTH, edit((*R, "rank"), 1.0), "1", "responses[0].rank", "valid integer"),
    (ALL, lambda d: again(d), "1", "responses[1].rank", "more than the 1"),
    (ALL, lambda d: again(d, rank=2, text=" "), "1", "responses[1].text", "empty"),
    (BOTH, lambda d: again(d, rank=2, text=LONG), "1", "responses[1].text", "251 words"),
    (
        (2024,),
        lambda d: again(d, rank=2, ptkb_provenance=[1, 3]),
        "1",
        "responses[1].ptkb_provenance[1]",
        "no statement",
    ),
    # of the passages
    (BOTH, edit((*P, 1, "score"), 9.0), "1", PASSAGES, "is above the 3.0"),
    (BOTH, edit((*P, 1, "score"), math.nan), "1", f"{PASSAGES}[1].score", "finite"),
    (BOTH, edit((*P, 1, "score"), math.inf), "1", f"{PASSAGES}[1].score", "finite"),
    (BOTH, edit((*P, 1, "score"), "high"), "1", f"{PASSAGES}[1].score", "valid number"),
    (BOTH, edit((*P, 1, "id"), IDS[0]), "1", PASSAGES, "occurs 2 times"),
    (BOTH, edit((*P, 1, "id"), "a b"), "1", PASSAGES, "white space"),
    (BOTH, edit((*P, 0, "used"), False), "1", PASSAGES, "no passage is marked as used"),
    (BOTH, edit((*P, 1, "used"), 0), "1", f"{PASSAGES}[1].used", "valid boolean"),
    (BOTH, edit(P, ...), "1", PASSAGES, "missing"),
    (BOTH, edit(P, passages(*range(1001, 0, -1))), "1", PASSAGES, "1001 passages, 1000 are"),
    ((2025,), edit((0, "references", IDS[1]), math.nan), "1", f"references.{IDS[1]}", "finite"),
    ((2025,), edit((0, "references"), IDS[:3]), "1", "references", "valid dictionary"),
    (
        (2025,),
        edit((0, "references"), dict(zip(map(str, range(1001)), range(1001, 0, -1), strict=True))),
        "1",
        "references",
        "1001",
    ),
    ((2025,), edit((*A, "citations"), IDS[:1]), "1", "responses[0].citations", "valid dictionary"),
    (
        (2025,),
        edit((*A, "citations", IDS[3]), 1.0),
        "1",
        "responses[0].citations",
        "not in the turn's references",
    ),
    # of the statements
    (
        (2023,),
        edit((*S, 0, "id"), "7"),
        "1",
        f"{STATEMENTS}[0]",
        'no statement "7": name one of 1, 2',
    ),
    ((2023,), edit((*S, 0, "id"), 1), "1", f"{STATEMENTS}[0].id", "valid string"),
    (
        (2023,),
        edit((*S, 0, "text"), "I drink TEA."),
        "1",
        f"{STATEMENTS}[0].text",
        "write 'I drink tea.'",
    ),
    ((2023,), edit((*S, 0, "text"), ""), "1", f"{STATEMENTS}[0].text", "write 'I drink tea.'"),
    (
        (2023,),
        edit((*S, 0, "text"), "I hate coffee."),
        "1",
        f"{STATEMENTS}[0].text",
        "write 'I drink tea.'",
    ),
    ((2023,), edit((*S, 1, "score"), 1.5), "1", STATEMENTS, "is above the 1.0"),
    ((2023,), edit((*S, 1, "score"), -math.inf), "1", f"{STATEMENTS}[1].score", "finite"),
    ((2024,), edit((*S, 0), 3), "1", f"{STATEMENTS}[0]", "no statement"),
    ((2024,), edit((*S, 0), 0), "1", f"{STATEMENTS}[0]", "no statement"),
    ((2024,), edit((*S, 0), "3"), "1", f"{STATEMENTS}[0]", "no statement"),
    ((2024,), edit((*S, 0), "one"), "1", f"{STATEMENTS}[0]", "a whole number"),
    ((2024,), edit((*S, 0), "-1"), "1", f"{STATEMENTS}[0]", "a whole number"),
    ((2024,), edit((*S, 0), 1.0), "1", f"{STATEMENTS}[0]", "a whole number"),
    ((2024,), edit((*S, 0), True), "1", f"{STATEMENTS}[0]", "a whole number"),
    ((2024,), edit((*S, 1), "1"), "1", STATEMENTS, "occurs 2 times"),
    ((2024,), edit((*S, 1), 1), "1", STATEMENTS, "occurs 2 times"),
    (BOTH, edit(S, ...), "1", STATEMENTS, "missing"),
    ((2025,), edit((*A, "ptkb_provenance", 0), 1), "1", f"{STATEMENTS}[0].text", "valid string"),
    ((2025,), edit((*A, "ptkb_provenance"), ["I ski."] * 2), "1", STATEMENTS, "2 times"),
    ((2025,), edit((*A, "ptkb_provenance"), ["I drink tea."] * 2), "1", STATEMENTS, "2 times"),
]
NEW = "new ones, from the user's"
WARNED = [
    (
        (2024,),
        several(edit(("run_type",), "only_response"), edit((*R, "text"), "")),
        "1",
        "responses[0].text",
        "empty",
    ),
    (
        (2024,),
        several(edit(("eval_response",), False), edit((*R, "text"), "")),
        "1",
        "responses[0].text",
        "empty",
    ),
    (BOTH, edit((*P, 1, "score"), 3.0), "1", PASSAGES, "tied scores (1)"),
    (BOTH, edit((*P, 1, "score"), 3.0 - 1e-9), "1", PASSAGES, "read a tie"),
    (BOTH, edit((*P, 1, "id"), "msmarco-1"), "1", PASSAGES, "not an id of the collection"),
    (BOTH, edit((*P, 1, "id"), f"x{IDS[1]}"), "1", PASSAGES, "not an id of the collection"),
    (BOTH, edit((*P, 1, "id"), f"{IDS[1]}a"), "1", PASSAGES, "not an id of the collection"),
    (
        BOTH,
        edit((*P, 1), {"id": IDS[1], "score": 2.0}),
        "1",
        PASSAGES,
        "1 passage lacks the field used",
    ),
    (BOTH, edit(P, []), "1", PASSAGES, "there is no passage"),
    (
        (2025,),
        edit((0, "references"), dict.fromkeys(IDS, 3.0)),
        "1",
        "references",
        "tied scores (3)",
    ),
    ((2025,), edit((0, "references", IDS[1]), 9.0), "1", "references", "not in the order"),
    ((2025,), edit((0, "references", IDS[1]), 3.0 - 1e-9), "1", "references", "read a tie"),
    ((2025,), edit((*A, "citations"), {}), "1", "responses[0].citations", "no passage is cited"),
    (
        (2025,),
        several(edit((0, "references"), {}), edit((*A, "citations"), {})),
        "1",
        "references",
        "there is no passage",
    ),
    ((2023,), edit((*S, 1, "score"), 1.0), "1", STATEMENTS, "tied scores (1)"),
    (BOTH, edit(S, []), "1", STATEMENTS, "no statement is named"),
    (
        (2025,),
        edit((*A, "ptkb_provenance", 0), "I drink  tea."),
        "1",
        f"{STATEMENTS}[0]",
        "write 'I drink tea.'",
    ),
    (
        (2025,),
        edit((*A, "ptkb_provenance", 0), "1"),
        "1",
        f"{STATEMENTS}[0]",
        "write 'I drink tea.'",
    ),
    ((2025,), edit((*A, "ptkb_provenance", 0), "I ski."), "1", f"{STATEMENTS}[0]", NEW),
    ((2025,), edit((*A, "ptkb_provenance", 0), ""), "1", f"{STATEMENTS}[0]", NEW),
]
EACH = []


for severity, cases in (("error", CASES), ("warning", WARNED)):
    for years, *rest in cases:
        for year in years:
            EACH.append((year, severity, *rest))


@pytest.mark.parametrize(("year", "severity", "change", "turn", "field", "word"), EACH)
def test_each_defect_is_named(tmp_path, year, severity, change, turn, field, word):
    document = valid(year)
    change(document)
    if turn in ("1", "2"):
        turn = f"{DATA[year].number}_{turn}"
    found = check(tmp_path, year, text_of(document))
    messages = []
    for problem in found:
        if (problem.severity, problem.turn, problem.field) == (severity, turn, field):
            messages.append(problem.message)
    assert any(word in message for message in messages), found
    if severity == "warning":
        assert {problem.severity for problem in found} == {"warning"}, found


@pytest.mark.parametrize("year", BOTH)
def test_the_passage_that_is_used_may_be_any(tmp_path, year):
    document = valid(year)
    response(document)["passage_provenance"][0]["used"] = False
    response(document)["passage_provenance"][2]["used"] = True
    assert check(tmp_path, year, text_of(document)) == []


def test_all_faults_of_a_turn_are_named(tmp_path):
    document = valid(2023)
    del response(document)["text"]
    response(document)["rank"] = "first"
    response(document)["speed"] = 1
    found = check(tmp_path, 2023, text_of(document))
    assert sorted(problem.field for problem in found) == [
        "responses[0].rank",
        "responses[0].speed",
        "responses[0].text",
    ]


def test_a_folder_is_no_submission(tmp_path):
    with pytest.raises(DataError, match=r"can't be read \([A-Z][a-z ]+\); give the path"):
        validate(tmp_path, DATA[2023])


def test_a_year_that_the_file_does_not_tell_is_the_given_one(tmp_path):
    """Without statements and without the field of 2024 it could be of either year."""
    for year, fields in ((2023, []), (2024, ["eval_response"])):
        document = valid(year)
        document.pop("eval_response", None)
        for turn in document["turns"]:
            turn["responses"][0]["ptkb_provenance"] = []
        found = check(tmp_path, year, text_of(document))
        errors = [problem.field for problem in found if problem.severity == "error"]
        assert errors == fields


@pytest.mark.parametrize("year", ALL)
def test_the_limits_themselves_are_allowed(tmp_path, year):
    document = valid(year)
    most = passages(*range(1000, 0, -1))
    if year == 2025:
        document[0]["references"] = {one["id"]: one["score"] for one in most}
    else:
        response(document)["passage_provenance"] = most
    assert check(tmp_path, year, text_of(document)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not JSON"),
        (b"\n \n", "not JSON"),
        (b'{"run_name": "r", "turns": [', "it may be cut short"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"[" * 100_000, "recursion depth"),
        (b"[1, 2]", "valid dictionary"),
        (b"\xef\xbb\xbf" + text_of(valid(2023)).encode(), "byte order mark"),
        (gzip.compress(text_of(valid(2023)).encode(), mtime=0), "byte 1 is not UTF-8"),
        (text_of(valid(2023)).encode("utf-16"), "byte 0 is not UTF-8"),
        (text_of(valid(2023)).replace("Yes", "Oui, café").encode("latin-1"), "is not UTF-8"),
        (
            b"9-1_1 Q0 clueweb22-en0000-00-00000:1 1 3.0 run\n",
            "`ikat submit` writes the submission of a run folder",
        ),
        (json.dumps([valid(2023)]).encode(), "valid dictionary"),
        (b"null", "it is null"),
    ],
)
def test_files_that_are_no_submission(tmp_path, text, message):
    found = check(tmp_path, 2023, text)
    assert message in found[0].message
    assert found[0].severity == "error"


def test_lines_in_one_array_are_checked_all_the_same(tmp_path):
    document = valid(2025)
    document[1]["responses"][0]["rank"] = 0
    found = check(tmp_path, 2025, json.dumps(document))
    assert [(one.turn, one.field) for one in found] == [("", ""), ("9-1_2", "responses[0].rank")]
    assert "write each of its objects on its own line" in found[0].message


@pytest.mark.parametrize(("broken", "fields"), [(2, ["line 3", "line 4"]), (3, [""])])
def test_lines_are_read_where_at_least_half_of_them_can_be(tmp_path, broken, fields):
    found = check(tmp_path, 2025, "\n".join([text_of(valid(2025)), *["{"] * broken]))
    assert [one.field for one in found] == fields


@pytest.mark.parametrize("year", BOTH)
def test_a_second_object_is_named_and_the_first_one_checked(tmp_path, year):
    second = valid(year)
    second["run_name"] = ""
    [found] = check(tmp_path, year, "\n".join(map(json.dumps, [valid(year), second])))
    assert (found.severity, found.field) == ("error", "")
    assert found.message == "there are 2 JSON values: the file has to be one object with all turns"


def test_a_line_that_is_cut_short(tmp_path):
    lines = text_of(valid(2025)).split("\n")
    found = check(tmp_path, 2025, lines[0] + "\n\n" + lines[1][:-5])
    assert [(one.turn, one.field) for one in found] == [("", "line 3"), ("9-1_2", "")]


@pytest.mark.parametrize("year", [2023, 2024, 2025])
@pytest.mark.parametrize("other", [2023, 2024, 2025])
def test_a_submission_of_another_year_is_named(tmp_path, year, other):
    found = check(tmp_path, year, text_of(valid(other)))
    expected = [] if year == other else [f"this is a submission of {other}, not of {year}"]
    assert [one.message.split(":")[0] for one in found] == expected


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match="can't be read"):
        validate(tmp_path / "none", DATA[2023])


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def mutated(draw):
    year = draw(st.sampled_from([2023, 2024, 2025]))
    document = valid(year)
    for _ in range(draw(st.integers(1, 4))):
        inside = document
        while True:
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(inside[key], dict | list) and draw(st.booleans()):
                inside = inside[key]
                continue
            if draw(st.booleans()):
                inside[key] = draw(JUNK)
            elif isinstance(inside, dict):
                inside[draw(st.text(max_size=3))] = inside.pop(key)
            else:
                del inside[key]
            break
    text = text_of(document)
    cut = draw(st.integers(0, len(text)) | st.just(len(text)))
    return draw(st.sampled_from([2023, 2024, 2025])), text[:cut]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(mutated())
def test_the_check_never_raises_and_its_words_can_be_printed(tmp_path, made):
    year, text = made
    for problem in check(tmp_path, year, text):
        assert problem.severity in ("error", "warning")
        assert problem.message
        str(problem).encode("utf-8")


def test_words_are_counted_after_nfkc_over_all_texts():
    place = Place()
    check_length(place, ["w\u00a0" * 200, "w\u3000" * 51], " in all")
    assert "251 words, 250 are allowed in all" in place.problems[0].message
    check_length(place, ["w " * 250])
    assert len(place.problems) == 1


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_a_turn_that_cannot_be_read_is_not_missing_too(tmp_path, year):
    document = valid(year)
    turns_of(document)[0]["responses"][0]["text"] = 5
    (tmp_path / "run").write_text(text_of(document))
    problems = validate(tmp_path / "run", DATA[year])
    turn = f"{DATA[year].number}_1"
    assert [(problem.turn, problem.field) for problem in problems] == [(turn, "responses[0].text")]
