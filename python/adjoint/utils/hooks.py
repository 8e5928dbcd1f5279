"""The handle that `register_*_hook` returns, which takes the hook out again."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

__all__ = ["RemovableHandle"]

_ids = itertools.count()


class RemovableHandle:
    """Removes a registered hook, by `remove()` or at the end of a `with` block.

    Parameters
    ----------
    hooks_dict : OrderedDict
        Where the hook is registered under this handle's `id`.
    extra : OrderedDict
        Further tables with an entry under the same `id` that goes when the hook goes.
    extra_dict : OrderedDict or list of OrderedDict, optional
        The same, by name.
    """

    def __init__(
        self,
        hooks_dict: OrderedDict[int, Any],
        *extra: OrderedDict[int, Any],
        extra_dict: Any = None,
    ) -> None:
        self.id = next(_ids)
        if extra_dict is not None:
            extra = (*extra, *(extra_dict if isinstance(extra_dict, list) else [extra_dict]))
        # Weak, so that a handle kept by the user does not keep the module alive.
        self.hooks_dict_ref: Callable[[], Any] = weakref.ref(hooks_dict)
        self.extra_dict_ref: tuple[Callable[[], Any], ...] = tuple(map(weakref.ref, extra))

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __getstate__(self) -> tuple[Any, ...]:
        # With the tables: in a copy of a module, its handles take out the hooks of the copy.
        tables = tuple(reference() for reference in self.extra_dict_ref)
        return self.hooks_dict_ref(), self.id, tables

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, extra = state
        self.hooks_dict_ref = _nowhere if hooks is None else weakref.ref(hooks)
        self.extra_dict_ref = tuple(weakref.ref(table) for table in extra if table is not None)
        # Hooks registered from now on must not take the place of this one.
        global _ids
        _ids = itertools.count(max(next(_ids), self.id + 1))


def _nowhere() -> None:
    """The table of a handle that was copied: none."""


class _WrappedHook:
    """A hook that is called with its module first; it does not keep the module alive.

    Parameters
    ----------
    hook : callable
        The hook.
    module : Module, optional
        What it is called with; none, if it takes no module.
    """

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        self.module: Callable[[], Any] = weakref.ref(module) if self.with_module else _nowhere
        self.__name__ = getattr(hook, "__name__", type(hook).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])
        else:
            self.module = _nowhere
        self.__name__ = getattr(self.hook, "__name__", type(self.hook).__name__)
