"""Under the name `torch`, classes say where PyTorch has them.

Programs print types, and libraries look at ``type(module).__module__``. A class is told its place
when its module has been loaded; what is not in PyTorch keeps its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import adjoint
from adjoint import _core
from adjoint._homes import move

__all__ = ["find_placed", "place_loaded"]

# Rooms whose modules have PyTorch's names.
_ROOMS = frozenset(
    (
        *("nn", "optim", "utils", "amp", "autograd", "distributions", "cuda", "cpu", "jit"),
        *("profiler", "futures", "quasirandom", "overrides", "multiprocessing", "sparse"),
    )
)
# Modules of adjoint's own with classes that PyTorch has at its top, or elsewhere.
_ELSEWHERE = {
    "adjoint._compat.small_names": "torch",
    "adjoint._compat.symbols": "torch",
    "adjoint._tensor.device": "torch",
    "adjoint._tensor.formats": "torch",
    "adjoint._tensor.storage": "torch.storage",
    "adjoint._tensor.typeinfo": "torch",
}


def _is_known(module: str) -> bool:
    """Whether classes of a module may have a place in PyTorch."""
    parts = module.split(".")
    if module == "adjoint.nn.modules.linear_cross_entropy":  # a name that PyTorch does not have
        return False
    return module in _ELSEWHERE or (
        len(parts) > 1 and parts[1] in _ROOMS and not any(p.startswith("_") for p in parts[1:])
    )


def _place(module: ModuleType) -> None:
    """Tell the classes of a module, and those that it has from parts of its own, their place."""
    name = module.__name__
    if not _is_known(name):
        return
    theirs = _ELSEWHERE.get(name)
    if theirs is None:
        theirs = "torch" + name.removeprefix("adjoint")
        sys.modules.setdefault(theirs, module)
    for key, cls in list(vars(module).items()):
        # Tensors' classes print PyTorch's names by themselves (src/bindings/tensor).
        if isinstance(cls, type) and not issubclass(cls, _core.Tensor) and _belongs(key, cls, name):
            _tell(cls, theirs)
    if name == "adjoint.distributions":
        _place_distributions()


def _belongs(key: str, cls: type, module: str) -> bool:
    """Whether a class in a module is found there under its own name, and nowhere before."""
    if module in _ELSEWHERE:
        public = key in adjoint._LAZY_NAMES or key in vars(adjoint)
        return cls.__module__ == module and public
    if cls.__module__ == module:
        return True
    room = ".".join(module.split(".")[:2]) + "."
    return cls.__name__ == key and cls.__module__.startswith(room) and "._" in cls.__module__


def _place_distributions() -> None:
    """PyTorch has a module for each; here those hold nothing but the name."""
    for name, module in list(sys.modules.items()):
        if name.startswith("adjoint.distributions.") and module.__spec__.loader is None:  # type: ignore[union-attr]
            for cls in [c for c in vars(module).values() if isinstance(c, type)]:
                _tell(cls, "torch" + name.removeprefix("adjoint"))


def _tell(cls: type, module: str) -> None:
    # InstanceNorm2d and its like are written beside BatchNorm2d.
    if module == "torch.nn.modules.batchnorm" and cls.__name__.startswith("InstanceNorm"):
        module = "torch.nn.modules.instancenorm"
    try:
        move(cls, module)
    except (AttributeError, TypeError):
        return  # a class of the core


def place_loaded() -> None:
    """Tell the classes of all modules that are loaded already."""
    for name, module in list(sys.modules.items()):
        if name.startswith("adjoint.") and isinstance(module, ModuleType):
            _place(module)


def find_placed(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """What is found for a module of adjoint's, whose classes are told their places once loaded."""
    spec = PathFinder.find_spec(name, path) if _is_known(name) else None
    if spec is None or spec.loader is None:
        return None
    loader: Any = spec.loader
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        _place(module)

    loader.exec_module = exec_module
    return spec
