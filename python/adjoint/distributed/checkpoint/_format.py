"""The files of a checkpoint.

``index.json`` says which file has which part of which tensor, and names the file of other values;
it is put in place last, by a rename. Files of a new checkpoint have new names, so that a run that
is killed while it writes leaves the old checkpoint as it was.
"""

from __future__ import annotations

import json
import os
from typing import Any

__all__ = ["FileSystemReader", "FileSystemWriter", "folder_of", "read_index", "write_index"]

_INDEX = "index.json"
_VERSION = 1


class FileSystemWriter:
    """Where a checkpoint is written: a folder."""

    def __init__(self, path: str | os.PathLike[str], **_: Any) -> None:
        self.path = os.fspath(path)


class FileSystemReader:
    """Where a checkpoint is read: a folder."""

    def __init__(self, path: str | os.PathLike[str], **_: Any) -> None:
        self.path = os.fspath(path)


def folder_of(checkpoint_id: Any, storage: Any) -> str:
    """The folder that is meant."""
    if checkpoint_id is not None:
        return str(os.fspath(checkpoint_id))
    path = getattr(storage, "path", None)
    if path is None:
        raise ValueError("no folder is given; fix: checkpoint_id='folder'")
    return str(os.fspath(path))


def write_index(folder: str, index: dict[str, Any]) -> None:
    """Put the index in place, which makes the checkpoint the current one; drop older files."""
    path = os.path.join(folder, _INDEX)
    with open(f"{path}.new", "w") as file:
        json.dump({"version": _VERSION, **index}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
    kept = {part["file"] for entry in index["tensors"].values() for part in entry["parts"]}
    kept |= {index["values"]}
    for name in os.listdir(folder):
        if name.startswith("part-") and name not in kept:
            os.unlink(os.path.join(folder, name))


def read_index(folder: str) -> dict[str, Any]:
    """The index of a checkpoint."""
    path = os.path.join(folder, _INDEX)
    try:
        with open(path) as file:
            index: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no checkpoint in '{folder}': no {_INDEX}, which is written last"
        ) from None
    if index.get("version") != _VERSION:
        raise RuntimeError(f"'{path}' has version {index.get('version')}; known is {_VERSION}")
    return index
