"""The files that results depend on."""

from pyterrier_ikat.foreign import files_below


def test_files_of_all_subfolders_and_links_are_found_in_order(tmp_path):
    for name in ("m/weights", "m/deep/er/weights", "m/deep/config", "elsewhere/tokens"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "m" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "m" / "a_file").symlink_to(tmp_path / "elsewhere" / "tokens")
    (tmp_path / "m" / "empty").mkdir()
    found = [path.relative_to(tmp_path / "m").as_posix() for path in files_below(tmp_path / "m")]
    assert found == ["a_file", "deep/config", "deep/er/weights", "linked/tokens", "weights"]
