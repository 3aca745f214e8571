import logging
import os

import pytest

from pyterrier_ikat import UsageError
from pyterrier_ikat.store.models import (
    checksum_model,
    files_below,
    is_copy,
    load,
    loaded_once,
    model_state,
)


def test_a_folder_whose_files_change_is_another_model(tmp_path):
    (tmp_path / "deep").mkdir()
    weights = tmp_path / "deep" / "weights"
    weights.write_text("abc")
    os.utime(weights, ns=(1, 1))
    seen = {str(model_state(str(tmp_path)))}
    weights.write_text("abcd")
    os.utime(weights, ns=(1, 1))
    seen.add(str(model_state(str(tmp_path))))
    os.utime(weights, ns=(2, 2))
    seen.add(str(model_state(str(tmp_path))))
    weights.rename(tmp_path / "weights")
    seen.add(str(model_state(str(tmp_path))))
    assert len(seen) == 4
    assert str(model_state(str(tmp_path))) in seen


def test_a_link_to_another_checkpoint_is_another_model(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text(name)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "0_Transformer").symlink_to(tmp_path / "first")
    assert [
        path.relative_to(tmp_path / "m").as_posix() for path in files_below(tmp_path / "m")
    ] == ["0_Transformer/weights"]
    first = model_state(str(tmp_path / "m"))
    (tmp_path / "m" / "0_Transformer").unlink()
    (tmp_path / "m" / "0_Transformer").symlink_to(tmp_path / "second")
    assert model_state(str(tmp_path / "m")) != first


def test_a_folder_is_the_same_model_by_any_path(tmp_path, monkeypatch):
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path)
    assert model_state("m") == model_state(str(tmp_path / "m"))


def test_model_loads_once_and_again_when_a_file_of_it_changed(tmp_path, monkeypatch):
    for name in ("m", "other/m"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "weights").write_text(name)
    monkeypatch.chdir(tmp_path)
    load = loaded_once(size=4)(lambda model, length: [model, length])
    first = load("m", 8)
    assert load("m", 8) is first
    assert load("m", 9) is not first
    assert load("of-the-hub", 8) is load("of-the-hub", 8)
    (tmp_path / "m" / "weights").write_text("retrained")
    again = load("m", 8)
    assert again is not first
    assert load("m", 8) is again
    by_name = load(model="m", length=8)
    (tmp_path / "m" / "weights").write_text("retrained again")
    assert load(model="m", length=8) is not by_name
    monkeypatch.chdir(tmp_path / "other")
    assert load("m", 8) is not again


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError("no/such is not a name\nor so"), "no/such is not a name"),
        (ValueError(), "ValueError"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_an_error_of_one_line(error, why):
    def make():
        raise error

    with pytest.raises(UsageError) as told:
        load("bi-encoder", "no/such", make)
    assert str(told.value).startswith(
        f"can't load the bi-encoder 'no/such' ({why}): give the folder of a downloaded model"
    )
    assert "\n" not in str(told.value)


def test_a_model_of_another_owner_on_the_hub_is_another_model():
    assert is_copy("one/minilm", "one/minilm", "one/minilm")
    assert not is_copy("two/minilm", "one/minilm", "one/minilm")


def test_a_moved_folder_is_the_same_model_until_its_files_change(tmp_path):
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text("abc")
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    assert is_copy(after, before, checksum_model(before))
    (tmp_path / "after" / "weights").write_text("abd")
    assert not is_copy(after, before, checksum_model(before))


def test_a_hub_out_of_reach_is_said_once(caplog):
    hub = logging.getLogger("huggingface_hub")
    before = hub.level

    def make():
        for number in range(5):
            logging.getLogger("huggingface_hub.utils._http").warning("Retrying %d", number)
        raise OSError("no connection to the hub")

    with pytest.raises(UsageError, match="no connection to the hub"):
        load("cross-encoder", "a/b", make)
    assert caplog.records == []
    assert hub.level == before


@pytest.mark.parametrize("place", [0, (1 << 20) - 1, 1 << 20, (3 << 20) + 4])
def test_every_byte_of_a_large_file_counts(tmp_path, place):
    for name in ("before", "same", "retrained"):
        (tmp_path / name).mkdir()
        weights = bytearray((3 << 20) + 5)
        if name == "retrained":
            weights[place] = 1
        (tmp_path / name / "weights").write_bytes(weights)
    before, same, retrained = (
        checksum_model(str(tmp_path / name)) for name in ("before", "same", "retrained")
    )
    assert before == same
    assert before != retrained
