"""The code in README.md and in docs/*.md runs, and prints what the pages say it prints.

The blocks of a page run in order in one namespace. A block that starts with `>>>` is a doctest; any
other is executed. Blocks marked `py` are for several processes: those of a page are one program of
two ranks, and one that starts its ranks itself is a program of its own. Read next:
docs/internals/how-it-works.md.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.children import WITH_CHECKOUT

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RANKS = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def pages(block: re.Pattern[str]) -> list[Path]:
    candidates = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in candidates if block.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", pages(BLOCK), ids=lambda page: page.name)
def test_code_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    namespace = module.__dict__
    for match in BLOCK.finditer(text):
        # Empty lines in front, so that a traceback has the line numbers of the page.
        code = "\n" * text.count("\n", 0, match.start(1)) + match[1]
        if match[1].startswith(">>>"):
            run_doctest(code, namespace, page)
        else:
            exec(compile(code, str(page), "exec", dont_inherit=True), namespace)


def run_doctest(code: str, namespace: dict[str, Any], page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(code, namespace, page.name, str(page), 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=report.append, clear_globs=False)
    namespace.update(test.globs)
    assert not runner.failures, "".join(report)


@pytest.mark.parametrize("page", pages(RANKS), ids=lambda page: page.name)
def test_code_for_several_processes_runs(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    blocks = RANKS.findall(page.read_text(encoding="utf-8"))
    alone = [block for block in blocks if "__main__" in block]
    together = "".join(block for block in blocks if "__main__" not in block)
    for number, code in enumerate(alone):
        run_program(tmp_path / f"alone{number}.py", code, "run")
    run_program(tmp_path / "together.py", together, "launch", "-n", "2")


def run_program(path: Path, code: str, *command: str) -> None:
    path.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", *command, str(path)],
        env=WITH_CHECKOUT,
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
