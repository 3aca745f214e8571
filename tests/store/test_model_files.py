import os

import pytest

from pyterrier_ikat import UsageError
from pyterrier_ikat.store.models import PATIENCE, files_below, load, loaded_once, model_state

hub = pytest.importorskip("huggingface_hub")


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
    (tmp_path / "m" / "around").symlink_to(tmp_path / "m")  # must not be walked for ever
    (tmp_path / "m" / "0_Transformer").symlink_to(tmp_path / "first")
    assert [path.relative_to(tmp_path / "m").as_posix() for path in files_below(tmp_path / "m")] == ["0_Transformer/weights"]
    first = model_state(str(tmp_path / "m"))
    (tmp_path / "m" / "0_Transformer").unlink()
    (tmp_path / "m" / "0_Transformer").symlink_to(tmp_path / "second")
    assert model_state(str(tmp_path / "m")) != first


def test_a_folder_is_the_same_model_by_any_path(tmp_path, monkeypatch):
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path)
    assert model_state("m") == model_state(str(tmp_path / "m"))


def test_a_model_is_loaded_once_and_again_when_a_file_of_its_folder_changed(tmp_path, monkeypatch):
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
    monkeypatch.chdir(tmp_path / "other")
    assert load("m", 8) is not again


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What the hub is asked; it has the models whose names begin with "known"."""
    names = []

    def model_info(self, name, timeout):
        assert timeout == PATIENCE
        names.append(name)
        if name.startswith("slow"):
            raise ConnectionError("timed out")
        if name.startswith("cut"):
            raise ConnectionError("refused")
        if not name.startswith("known"):
            raise hub.errors.RepositoryNotFoundError("404", response=_Answer())

    monkeypatch.setattr(hub.HfApi, "model_info", model_info)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    return names


class _Answer:
    headers, request = {}, None


def never():
    raise AssertionError("the model was loaded")


@pytest.mark.parametrize(
    ("model", "why", "names"),
    [
        ("no/such", "it is not here, and https://huggingface.co has no such model", ["no/such"]),
        ("such", "it is not here, and https://huggingface.co has no such model", ["such", "sentence-transformers/such"]),
        (
            "slow/one",
            "it is not here, and https://huggingface.co can't be reached: timed out; on a slow connection set HF_HUB_ETAG_TIMEOUT=30",
            ["slow/one"],
        ),
        ("cut/off", "it is not here, and https://huggingface.co can't be reached: refused", ["cut/off"]),
    ],
)
def test_a_wrong_name_is_told_before_the_libraries_are_loaded(asked, model, why, names):
    with pytest.raises(UsageError) as told:
        load("bi-encoder", model, never)
    assert str(told.value).startswith(f"can't load the bi-encoder '{model}' ({why}): give the folder of a downloaded model")
    assert "\n" not in str(told.value)
    assert asked == names


def test_a_slow_connection_gets_the_seconds_that_the_user_names(monkeypatch, tmp_path):
    waited = []
    monkeypatch.setattr(hub.HfApi, "model_info", lambda self, name, timeout: waited.append(timeout))
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert load("bi-encoder", "some/model", lambda: 1) == 1
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "30")
    monkeypatch.setattr(hub.constants, "HF_HUB_ETAG_TIMEOUT", 30)  # which huggingface_hub reads when it is imported
    assert load("bi-encoder", "some/model", lambda: 1) == 1
    assert waited == [PATIENCE, 30]


def test_what_is_here_or_on_the_hub_is_loaded(asked, tmp_path):
    assert load("bi-encoder", "known/model", lambda: "loaded") == "loaded"
    (tmp_path / "models--kept--model").mkdir()
    assert load("bi-encoder", "kept/model", lambda: "loaded") == "loaded"
    assert load("bi-encoder", str(tmp_path), lambda: "loaded") == "loaded"
    assert asked == ["known/model"]


def test_a_name_that_the_hub_can_not_have_is_told(asked, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(UsageError, match="can't load the cross-encoder 'cross-encoder/none/such' .Repo id must be in the form"):
        load("cross-encoder", "cross-encoder/none/such", never)
