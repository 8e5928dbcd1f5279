"""Every solver has an example whose answer and derivative a page of the documentation checks."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from .test_references import ROOMS

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/closed-forms.md"


@pytest.mark.parametrize("room", ROOMS)
def test_the_page_of_closed_forms_checks_every_solver(room: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    public = set(importlib.import_module(f"adjoint.{room}").__all__)
    wanted = public - set(ROOMS[room].NOT_SOLVERS)
    short = room.rpartition(".")[2]
    missing = {n for n in wanted if not re.search(rf"\b{short}\.{n}\b", code)}
    assert not missing
    # Results that are not checked at once are by the next lines: none is only printed.
    assert "print(" not in code
    assert code.count("check(") > len(wanted)
