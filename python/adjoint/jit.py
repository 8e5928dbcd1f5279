"""`torch.jit` as far as it is honest: functions and modules are handed back as they are.

PyTorch translates Python to a language of its own here. adjoint runs the Python itself, eagerly or
through `adjoint.compile`, so that `script` and `trace` give the function that they were given; a
note says so once. What promises a file or a graph of that language raises.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Final, TypeVar

import adjoint as ad
from adjoint._missing import watch as _watch
from adjoint.nn import Module

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

F = TypeVar("F")
_isinstance = isinstance


class TracerWarning(Warning):
    """PyTorch's warning of a traced function that depends on values; programs silence it."""


class ScriptWarning(Warning):
    """PyTorch's warning of a function that cannot be translated; programs silence it."""


class Error(RuntimeError):
    """PyTorch's error of a translated program."""


class ScriptModule(Module):
    """PyTorch's class of translated modules; nothing here is one, unless a program derives it."""


class ScriptFunction:
    """PyTorch's class of translated functions; nothing here is one."""


@functools.cache
def _note(name: str) -> None:
    warnings.warn(
        f"torch.jit.{name} hands back what it is given: adjoint runs Python itself. "
        "adjoint.compile(f) records a function for speed.",
        stacklevel=3,
    )


def script(obj: F, *_: Any, **__: Any) -> F:
    """Return `obj` itself."""
    _note("script")
    return obj


def trace(func: F, example_inputs: Any = None, *_: Any, **__: Any) -> F:
    """Call `func` once with the example, as PyTorch would, and return `func` itself."""
    _note("trace")
    if example_inputs is not None:
        call: Any = func
        with ad.no_grad():
            if _isinstance(example_inputs, dict):
                call(**example_inputs)
            elif _isinstance(example_inputs, ad.Tensor):
                call(example_inputs)
            else:
                call(*example_inputs)
    return func


def trace_module(mod: Module, inputs: dict[str, Any], *_: Any, **__: Any) -> Module:
    """Call the methods of a module that are named, with their examples, and return the module."""
    for name, given in inputs.items():
        trace(getattr(mod, name), given)
    return mod


def freeze(mod: F, *_: Any, **__: Any) -> F:
    """Return the module itself."""
    return mod


optimize_for_inference = freeze


def export(fn: F) -> F:
    """Return the function itself: everything is exported."""
    return fn


script_method = script_if_tracing = export


def ignore(drop: Any = False, **_: Any) -> Any:
    """Return the function itself, or a decorator that does: everything is ignored."""
    return drop if callable(drop) else export


def unused(fn: F) -> F:
    """Return the function itself."""
    return fn


def is_scripting() -> bool:
    """False: nothing is translated."""
    return False


def is_tracing() -> bool:
    """False: nothing is translated."""
    return False


def annotate(the_type: Any, the_value: F) -> F:
    """Return the value."""
    return the_value


def Attribute(value: F, type: Any) -> F:
    """Return the value."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`, also of generic types such as ``list[int]``, by their origin."""
    types = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(getattr(t, "__origin__", t) for t in types))


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function now; `wait` gives its result."""
    return func(*args, **kwargs)


def wait(future: F) -> F:
    """Return what `fork` gave."""
    return future


def interface(obj: F) -> F:
    """Return the class itself."""
    return obj


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Accepted: there is no fuser of that language. The last strategy is returned."""
    before = list(_strategy)
    _strategy[:] = strategy
    return before


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted, and kept: there is no fuser of that language."""
    _onednn[0] = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """What `enable_onednn_fusion` was given."""
    return _onednn[0]


_strategy: list[tuple[str, int]] = [("STATIC", 2), ("DYNAMIC", 10)]
_onednn = [False]


class optimized_execution:
    """A context that does nothing: there is no optimiser of that language."""

    def __init__(self, should_optimize: bool = True) -> None:
        pass

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


strict_fusion = optimized_execution


def save(m: Any, f: Any, *_: Any, **__: Any) -> None:
    """Refuse: there is no translated program to save."""
    raise NotImplementedError(
        "torch.jit.save writes programs of TorchScript, which adjoint has none of.\n"
        "  fix: torch.save(model.state_dict(), f)"
    )


def load(f: Any, *_: Any, **__: Any) -> Any:
    """Refuse: files of TorchScript hold programs that adjoint cannot run."""
    raise NotImplementedError(
        "torch.jit.load reads programs of TorchScript, which adjoint cannot run.\n"
        "  fix: save model.state_dict() with PyTorch and load it into the module"
    )


_watch(__name__)
