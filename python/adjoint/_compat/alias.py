"""`install_as_torch`: `import torch` resolves to adjoint in this process.

Submodules are the same objects (`torch.nn is adjoint.nn`). `torch` itself is a module of its own
with adjoint's names in it, because its `__version__` answers for PyTorch's.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import adjoint
from adjoint import _core, _missing
from adjoint._compat import class_places as _class_places
from adjoint._sharing import children as _children
from adjoint.torch_version import TORCH_VERSION

__all__ = ["install_as_torch"]


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
    _missing.answers_as_torch = True
    _core._answer_as_torch(True)
    _children.tell_children()
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        _class_places.place_loaded()


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
        self.__dict__["__getattr__"] = _core._at_callers_line(self._find_name)
        public = getattr(adjoint, "__all__", None)
        if public is not None:
            self.__dict__["__all__"] = list(public)

    def _find_name(self, name: str) -> Any:
        """What a module's `__getattr__` does; in its dict, where tools look for it."""
        if name in ("__config__", "__future__"):  # modules, unlike other names of this form
            return importlib.import_module(f"torch.{name}")
        # What adjoint loads lazily is copied at its first use.
        if not name.startswith("__"):
            value = getattr(adjoint, name, _NOTHING)
            if value is not _NOTHING:
                self.__dict__[name] = value
                return value
        raise _missing.missing("adjoint", name)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(adjoint)})


_NOTHING = object()


class _Finder(MetaPathFinder):
    """Answers for `torch`, `functorch` and all below them; first on `sys.meta_path`.

    Modules that start processes pass through it, to be told of the alias.
    """

    def __init__(self) -> None:
        # In the way of the method: its errors end in the line that imports.
        self.__dict__["find_spec"] = _core._at_callers_line(self._find)

    def _find(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torch":
            return ModuleSpec(fullname, _TorchLoader(), is_package=True)
        if fullname.startswith("torch."):
            ours = "adjoint" + fullname.removeprefix("torch")
        elif fullname == "functorch" or fullname.startswith("functorch."):
            ours = "adjoint." + fullname
        elif fullname.startswith("adjoint."):
            return _class_places.find_placed(fullname, path)
        else:
            return _children.find_mended(fullname, path)
        if importlib.util.find_spec(ours) is None:
            from adjoint._missing_text import no_module

            error = ModuleNotFoundError(no_module(fullname), name=fullname)
            error._at_callers_line = True  # type: ignore[attr-defined]
            raise error
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
        _missing.watch(self.ours)
        # Without a path Python would not ask for what is to lie below, and say less than we do.
        found.__dict__.setdefault("__path__", [])
        sys.modules[name] = found
        # What is loaded below it gets its second name too: a later import would put the module in
        # place of a name of the package, such as the function `autograd.gradcheck`.
        for ours, module in list(sys.modules.items()):
            if ours.startswith(self.ours + "."):
                sys.modules.setdefault(name + ours.removeprefix(self.ours), module)
