"""Which model it is that gave a result."""

from pathlib import Path

from ..result_cache import digest


def fingerprint(kind: str, model: str, *settings: str) -> bytes:
    """Equal exactly for what gives equal results, of 16 bytes.

    Of a folder it knows each file's size and time of change. A name of the Hugging Face hub stands for itself: a model that is replaced
    there under the same name is not told apart.

    Args:
        kind: what the model is used as.
        model: its name, or its folder.
        settings: whatever else the results depend on; as many for all models of a kind.
    """
    folder = Path(model)
    if not folder.is_dir():
        return digest(kind, *settings, model)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return digest(kind, *settings, str(folder.resolve()), *(_described(path, folder) for path in files))


def _described(path: Path, folder: Path) -> str:
    about = path.stat()
    return f"{path.relative_to(folder)} {about.st_size} {about.st_mtime_ns}"
