"""`install_as_torch`: `import torch` resolves to adjoint in this process.

Submodules are the same objects (`torch.nn is adjoint.nn`). `torch` itself is a module of its own
with adjoint's names in it, because its `__version__` answers for PyTorch's.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import adjoint
from adjoint import _missing
from adjoint._sharing import children as _children

__all__ = ["install_as_torch"]

# The release whose names, defaults and results adjoint follows.
TORCH_VERSION = "2.13.0+adjoint"


def install_as_torch() -> None:
    """Make `import torch`, `import torch.a.b` and `from torch import x` mean adjoint.

    Holds for this process and for those that `multiprocessing` starts from it; a second call
    changes nothing. Names that adjoint does not have raise AttributeError or ImportError and say
    so.

    Raises
    ------
    RuntimeError
        PyTorch itself is imported already.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.install_as_torch()  # doctest: +SKIP
    >>> import torch  # doctest: +SKIP
    >>> torch.nn is ad.nn  # doctest: +SKIP
    True
    """
    existing = sys.modules.get("torch")
    if isinstance(existing, _Torch):
        return
    if existing is not None:
        where = getattr(existing, "__file__", None) or "an unknown place"
        raise RuntimeError(
            f"install_as_torch: PyTorch is imported already, from {where}.\n"
            "  fix: call adjoint.install_as_torch() before anything imports torch, or start the "
            "script with `adjoint run`"
        )
    _missing.second_name = _lacking
    _children.tell_children()
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Torch(ModuleType):
    """The module called `torch`: adjoint's names, copied so that `torch.sin` is a plain lookup."""

    def __init__(self) -> None:
        super().__init__("torch", adjoint.__doc__)
        for name, value in vars(adjoint).items():
            if not (name.startswith("__") and name.endswith("__")):
                self.__dict__[name] = value
        self.__version__ = TORCH_VERSION
        self.__file__ = adjoint.__file__
        self.__path__ = list(adjoint.__path__)
        self.__dict__["__getattr__"] = self._find_name
        public = getattr(adjoint, "__all__", None)
        if public is not None:
            self.__dict__["__all__"] = list(public)

    def _find_name(self, name: str) -> Any:
        """What a module's `__getattr__` does; in its dict, where tools look for it."""
        if name == "__future__":  # a module of switches, unlike other names of this form
            return importlib.import_module("torch.__future__")
        # What adjoint loads lazily is copied at its first use.
        if not name.startswith("__"):
            try:
                value = getattr(adjoint, name)
            except AttributeError:
                raise AttributeError(_lacking("torch", name)) from None
            self.__dict__[name] = value
            return value
        raise AttributeError(f"module 'torch' has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(adjoint)})


class _Finder(MetaPathFinder):
    """Answers for `torch`, `functorch` and all below them; first on `sys.meta_path`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torch":
            return ModuleSpec(fullname, _TorchLoader(), is_package=True)
        if fullname.startswith("torch."):
            ours = "adjoint" + fullname.removeprefix("torch")
        elif fullname == "functorch" or fullname.startswith("functorch."):
            ours = "adjoint." + fullname
        else:
            return None
        if importlib.util.find_spec(ours) is None:
            raise ModuleNotFoundError(
                f"No module named '{fullname}': `torch` is adjoint in this process, and there is "
                f"no '{ours}'",
                name=fullname,
            )
        return ModuleSpec(fullname, _AliasLoader(ours))


class _TorchLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Torch()

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the names are there already."""


class _AliasLoader(Loader):
    """Puts the module of adjoint under the second name, instead of loading it twice."""

    def __init__(self, ours: str) -> None:
        self.ours = ours

    def exec_module(self, module: ModuleType) -> None:
        # The import system hands out what stands in sys.modules afterwards. Returning our module
        # from create_module instead would overwrite its __spec__.
        name = module.__name__
        found = importlib.import_module(self.ours)
        if "__getattr__" not in found.__dict__:
            found.__dict__["__getattr__"] = _explain_missing(name)
        sys.modules[name] = found
        # What is loaded below it gets its second name too: a later import would put the module in
        # place of a name of the package, such as the function `autograd.gradcheck`.
        for ours, module in list(sys.modules.items()):
            if ours.startswith(self.ours + "."):
                sys.modules.setdefault(name + ours.removeprefix(self.ours), module)


def _explain_missing(module: str) -> Callable[[str], Any]:
    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        raise AttributeError(_lacking(module, name))

    return __getattr__


def _lacking(module: str, name: str) -> str:
    return (
        f"module '{module}' has no attribute '{name}': `torch` is adjoint {adjoint.__version__} in "
        f"this process, and adjoint has no '{name}' there"
    )
