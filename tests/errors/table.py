"""How the tables of errors are written: a call, the class it raises, a part of its message."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

Row = tuple[Callable[[], Any], type[Exception], str]


def refusals(*rows: Row) -> pytest.MarkDecorator:
    """Run a test with `row` set to each of these in turn, named by what its message says."""
    names = [f"{kind.__name__}: {part}" for _, kind, part in rows]
    return pytest.mark.parametrize("row", rows, ids=names)


def check(row: Row) -> None:
    """Assert that the call raises exactly this class, and that the message has the part."""
    call, kind, part = row
    with pytest.raises(kind, match=re.escape(part)) as caught:
        call()
    if caught.type is not kind:
        pytest.fail(f"{caught.type.__name__} is more than {kind.__name__}")
