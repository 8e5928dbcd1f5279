"""A file that a command is to write, looked at before a program runs for an hour."""

from __future__ import annotations

import sys
from pathlib import Path


def refused(path: str | None, command: str) -> bool:
    """Whether no such file can be written, which is said then."""
    if path is None:
        return False
    folder = Path(path).absolute().parent
    if Path(path).is_dir():
        why = "it is a folder"
    elif not folder.is_dir():
        why = f"there is no folder {str(folder)!r}"
    else:
        return False
    print(f"adjoint {command}: cannot write {path!r}: {why}", file=sys.stderr)
    return True
