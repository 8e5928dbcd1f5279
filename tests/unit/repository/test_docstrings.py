"""The examples in the docstrings of the package run, and print what they say they print.

Read next: test_docs_examples.py, which does the same for the pages.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import adjoint

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
SKIPPED = {
    "adjoint._core",  # The docs of ops have no examples.
    "adjoint.__main__",  # To import it is to run it.
    "adjoint._compat.aliased",  # To import it makes `torch` mean adjoint, for all tests to come.
}


NEEDS = {"adjoint.utils.tensorboard": "tensorboard"}


def modules() -> list[str]:
    found = pkgutil.walk_packages(adjoint.__path__, "adjoint.")
    return [module.name for module in found if module.name not in SKIPPED]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_print_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    report: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)
