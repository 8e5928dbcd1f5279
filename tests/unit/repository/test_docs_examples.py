"""The code in README.md and in docs/*.md runs, and prints what the pages say it prints.

The blocks of a page run in order in one namespace. A block that starts with `>>>` is a doctest; any
other is executed. Read next: docs/internals/how-it-works.md.
"""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def pages() -> list[Path]:
    candidates = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in candidates if BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
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
