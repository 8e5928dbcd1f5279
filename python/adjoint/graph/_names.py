"""Names of tensors: what the program, or a model, or a composite calls them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from types import FrameType
from typing import Any

from adjoint._core import Tensor


class Names(dict[int, str]):
    """Names of tensors by their id, and the models that some are called after."""

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, Any] = {}


def tensor_names(frame: FrameType, names: Mapping[str, Tensor] | None = None) -> Names:
    """Names of tensors by their id: those given, else variables of a function and its module.

    What no variable holds itself is called after the composite or the model that does:
    ``state.velocity``, ``net.0.weight``.
    """
    found = Names()
    if names is not None:
        if not isinstance(names, Mapping):
            raise TypeError(
                f"names: expected a dict from names to tensors, got {type(names).__name__}; "
                "several outputs are given as a list"
            )
        for name, value in names.items():
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"names: expected a Tensor for {name!r}, got {type(value).__name__}; it is a "
                    "dict from names to tensors"
                )
            found.setdefault(id(value), name)
        return found
    variables = list(frame.f_globals.items())
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function's, not a module's
        variables = [*_local_variables(frame), *variables]
    elif frame.f_globals is not frame.f_locals:
        variables = [*frame.f_locals.items(), *variables]
    values = [item for item in variables if _is_name(item[0])]
    for name, value in values:
        if isinstance(value, Tensor):
            found.setdefault(id(value), name)
    for name, value in values:
        if _may_be_composite(value):
            for path, tensor in _parts(name, value):
                found.setdefault(id(tensor), path)
    for name, model in _models(values):
        found.models.setdefault(name, model)
        for path, parameter in model.named_parameters():
            found.setdefault(id(parameter), f"{name}.{path}")
    return found


def _models(values: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The variables that are models; parts of others, such as the variable of a loop, come last."""
    nn = sys.modules.get("adjoint.nn")  # no model without it
    models = [item for item in values if nn is not None and isinstance(item[1], nn.Module)]
    inner = {id(part) for _, model in models for part in model.modules() if part is not model}
    return sorted(models, key=lambda item: id(item[1]) in inner)


def _local_variables(frame: FrameType) -> list[tuple[str, Any]]:
    """The variables of a function, without keeping them.

    Before Python 3.13 a frame holds the dict it gave out as ``f_locals`` to its end, and with it
    graphs whose variables are gone since. What is in there from the function's own variables is
    taken out again, unless somebody else, such as a caller of ``locals()``, has the dict too.
    """
    local: Any = frame.f_locals
    found = list(local.items())
    if type(local) is dict and sys.getrefcount(local) <= _FRAME_ONLY:
        code = frame.f_code
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            local.pop(name, None)
    return found


_FRAME_ONLY = 3  # references to the dict of a frame: the frame, a variable, an argument


_LONGEST = 64  # a list of this many parts is rather a record of something than a composite


def _may_be_composite(value: Any) -> bool:
    """Whether to look for tensors inside: not into everything that a module holds."""
    if isinstance(value, (list, tuple, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return len(value) <= _LONGEST and any(isinstance(part, Tensor) for part in parts)
    if isinstance(value, type) or type(value).__module__ == "builtins":
        return False
    if is_dataclass(value) or hasattr(type(value), "__attrs_attrs__"):
        return True
    classes = sys.modules.get("adjoint._tree_classes")  # none is declared without it
    return classes is not None and type(value) in classes.declared


def _parts(name: str, value: Any) -> list[tuple[str, Tensor]]:
    from adjoint import _tree

    try:
        leaves, spec = _tree.flatten(value)
    except ValueError:  # it contains itself
        return []
    pairs = zip(_tree.paths(spec, name), leaves, strict=True)
    return [(path, leaf) for path, leaf in pairs if isinstance(leaf, Tensor)]


def _is_name(name: str) -> bool:
    """Whether somebody chose it; test runners and notebooks keep values under others."""
    return name.isidentifier() and not name.startswith("_")
