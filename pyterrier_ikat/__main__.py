"""``python -m pyterrier_ikat`` is the command ``ikat``."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="ikat")
