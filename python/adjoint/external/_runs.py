"""Folders of finished runs of a program, kept for inspection, and for a program that is resumed.

``keep="runs"`` moves the folder of each run to ``runs/run-<fingerprint of the inputs>``, with what
the program was told and wrote; ``runs/journal.jsonl`` has a line for each. With ``resume=True`` a
run that is there and ended well is read again instead of being made. Read next: _command.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["KeptRuns"]

_DONE = "run.json"


class KeptRuns:
    """The runs in a folder."""

    def __init__(self, folder: str, resume: bool) -> None:
        self.folder, self.resume = Path(folder), resume

    def key(self, identity: str, args: Sequence[Any]) -> str:
        """The name of the run on some inputs."""
        content = hashlib.blake2b(identity.encode(), digest_size=10)
        content.update(pickle.dumps([_content(a) for a in args], protocol=4))
        return f"run-{content.hexdigest()}"

    def finished(self, key: str) -> Path | None:
        """The folder of a run that ended well, if it is to be read again."""
        path = self.folder / key
        return path if self.resume and (path / _DONE).is_file() else None

    def add(self, key: str, scratch: Path, arguments: Sequence[str], out: Any, err: Any) -> None:
        """Move the folder of a run here; ``out`` is None if it failed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (scratch / "stdout.txt").write_bytes(out or b"")
        (scratch / "stderr.txt").write_bytes(err or b"")
        told = {"run": key, "arguments": list(arguments), "ok": out is not None, "at": time.time()}
        if out is not None:
            (scratch / _DONE).write_text(json.dumps(told))
        target = self.folder / (key if out is not None else f"{key}-failed")
        part = self.folder / f".{target.name}-{os.getpid()}-{time.monotonic_ns()}"
        shutil.copytree(scratch, part)
        with contextlib.suppress(OSError):
            shutil.rmtree(target)
        try:
            part.rename(target)
        except OSError:  # another worker has just put the same run there
            shutil.rmtree(part, ignore_errors=True)
        with (self.folder / "journal.jsonl").open("a") as journal:
            journal.write(json.dumps(told) + "\n")


def _content(value: Any) -> Any:
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return str(value.dtype), value.shape, value.tobytes()
    return value
