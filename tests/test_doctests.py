"""The examples in the docstrings run and print what stands there."""

import doctest
import importlib
import pkgutil

import pytest

import pyterrier_ikat
from pyterrier_ikat.evaluation import breakdown

MODULES = [
    "pyterrier_ikat",
    *sorted(
        module.name for module in pkgutil.walk_packages(pyterrier_ikat.__path__, "pyterrier_ikat.")
    ),
]


class Finder(doctest.DocTestFinder):
    """Finds the examples of decorated functions.

    Too, whose globals are those of the decorator's module.
    """

    def _from_module(self, module, found):
        return getattr(found, "__module__", None) == module.__name__ or super()._from_module(
            module, found
        )


def test_examples_of_decorated_functions_are_found():
    module = importlib.import_module(breakdown.__module__)
    assert f"{module.__name__}.breakdown" in {
        test.name for test in Finder().find(module) if test.examples
    }


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore")
def test_the_examples_of_a_module(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner()
    for test in Finder().find(module):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out[-3000:]
