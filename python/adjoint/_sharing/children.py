"""Processes that ``multiprocessing`` starts from one in which `torch` is adjoint.

A forked child has the alias by itself. One that is spawned starts afresh and imports the main
module of its parent, which says ``import torch``: before that, the alias must be there.
"""

from __future__ import annotations

import multiprocessing.forkserver
import multiprocessing.spawn
from collections.abc import Callable
from typing import Any

__all__ = ["tell_children"]

_INSTALLS = "adjoint._compat.aliased"


class _Install:
    """An object that installs the alias where it is unpickled."""

    def __init__(self, path: list[str]) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        # A function of adjoint's could not be found yet: the child has not got our sys.path.
        return exec, (
            f"import sys\nbefore, sys.path = sys.path, {self._path!r}\n"
            "import adjoint\nadjoint.install_as_torch()\nsys.path = before",
            {},
        )


def _with_alias(prepare: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    def get_preparation_data(name: str) -> dict[str, Any]:
        data = prepare(name)
        # First, and under a name that the child does not look for: to be unpickled is enough.
        return {"adjoint": _Install(data.get("sys_path", [])), **data}

    get_preparation_data.tells_children = True  # type: ignore[attr-defined]
    return get_preparation_data


def tell_children() -> None:
    """Let spawned processes begin with the alias."""
    spawn: Any = multiprocessing.spawn
    if getattr(spawn.get_preparation_data, "tells_children", False):
        return
    spawn.get_preparation_data = _with_alias(spawn.get_preparation_data)
    server: Any = multiprocessing.forkserver
    set_preload, asked = server.set_forkserver_preload, server._forkserver._preload_modules
    server.set_forkserver_preload = lambda names: set_preload(_with_alias_first(names))
    server.set_forkserver_preload(asked)


def _with_alias_first(names: list[str]) -> list[str]:
    """What the fork server is to import ahead of its children, which must not be PyTorch.

    The main module says ``import torch`` too, but may do so where adjoint is not found.
    """
    found = [name for name in names if name not in ("__main__", _INSTALLS)]
    return [_INSTALLS, *found] if found else []
