"""What is in a folder of an index."""


def times_of_files(folder):
    """The time at which each file and folder below ``folder`` was written."""
    times = {}
    for path in folder.rglob("*"):
        times[path] = path.stat().st_mtime_ns
    return times
