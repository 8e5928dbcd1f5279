"""Processes that ``multiprocessing`` starts from one in which `torch` is adjoint.

A forked child has the alias by itself. One that is spawned starts afresh and imports the main
module of its parent, which says ``import torch``: before that, the alias must be there. The modules
that start processes are mended when they are imported: most programs have no use for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["find_mended", "tell_children"]

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
    """Let spawned processes begin with the alias, if what starts them is imported already."""
    for name, mend in _MENDS.items():
        if (module := sys.modules.get(name)) is not None:
            mend(module)


def find_mended(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """What is found for a module that starts processes, to be mended once it is loaded."""
    mend = _MENDS.get(name)
    spec = None if mend is None else PathFinder.find_spec(name, path)
    if mend is None or spec is None or spec.loader is None:
        return None
    loader: Any = spec.loader
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        mend(module)

    loader.exec_module = exec_module
    return spec


def _mend_spawn(spawn: Any) -> None:
    if not getattr(spawn.get_preparation_data, "tells_children", False):
        spawn.get_preparation_data = _with_alias(spawn.get_preparation_data)


def _mend_server(server: Any) -> None:
    set_preload, asked = server.set_forkserver_preload, server._forkserver._preload_modules
    if getattr(set_preload, "tells_children", False):
        return

    def set_forkserver_preload(modules_names: list[str]) -> None:
        set_preload(_with_alias_first(modules_names))

    set_forkserver_preload.tells_children = True  # type: ignore[attr-defined]
    server.set_forkserver_preload = set_forkserver_preload
    server.set_forkserver_preload(asked)


def _with_alias_first(names: list[str]) -> list[str]:
    """What the fork server is to import ahead of its children, which must not be PyTorch.

    The main module says ``import torch`` too, but may do so where adjoint is not found.
    """
    found = [name for name in names if name not in ("__main__", _INSTALLS)]
    return [_INSTALLS, *found] if found else []


_MENDS: dict[str, Callable[[Any], None]] = {
    "multiprocessing.forkserver": _mend_server,
    "multiprocessing.spawn": _mend_spawn,
}
