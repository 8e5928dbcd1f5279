"""The handle that `register_*_hook` returns: it takes the hook out again."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

__all__ = ["RemovableHandle"]

_ids = itertools.count()


class RemovableHandle:
    """Removes a registered hook, by `remove()` or at the end of a `with` block.

    Parameters
    ----------
    hooks : OrderedDict
        Where the hook is registered under this handle's `id`.
    extra : OrderedDict
        Further tables with an entry under the same `id` that goes when the hook goes.
    """

    def __init__(self, hooks: OrderedDict[int, Any], *extra: OrderedDict[int, Any]) -> None:
        self.id = next(_ids)
        # Weak, so that a handle kept by the user does not keep the module alive.
        self._tables = [weakref.ref(table) for table in (hooks, *extra)]

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        for reference in self._tables:
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __getstate__(self) -> dict[str, Any]:
        # A copied or unpickled handle points at nothing: its hook is in another module or process.
        return {"id": self.id}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.id = state["id"]
        self._tables = []
