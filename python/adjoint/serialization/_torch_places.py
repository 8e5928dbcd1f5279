"""Where a class or a function of adjoint's is found in PyTorch, and the other way round.

Most modules have PyTorch's names: ``adjoint.nn.modules.linear`` is ``torch.nn.modules.linear``. The
tables have the rest. Files name PyTorch's places, so that PyTorch reads ours and we read theirs.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from adjoint.serialization._errors import LoadError
from adjoint.serialization._rebuild import REBUILDERS, _get_layout, _rebuild_from_type_v2

__all__ = ["STORAGE_TYPES", "StorageType", "found_in_torch", "place_in_torch"]

Place = tuple[str, str]


class StorageType:
    """``torch.FloatStorage`` and its like, which persistent ids have.

    Parameters
    ----------
    name : str
        As PyTorch calls it.

    Attributes
    ----------
    name
        The same.
    dtype
        The type of the elements.
    """

    __slots__ = ("dtype", "name")

    def __init__(self, name: str) -> None:
        self.name, self.dtype = name, _storage_dtypes()[name]

    def __reduce__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def _storage_dtypes() -> dict[str, Any]:
    from adjoint import _core

    return {
        "FloatStorage": _core.float32, "DoubleStorage": _core.float64,
        "HalfStorage": _core.float16, "BFloat16Storage": _core.bfloat16,
        "LongStorage": _core.int64, "IntStorage": _core.int32, "ShortStorage": _core.int16,
        "CharStorage": _core.int8, "ByteStorage": _core.uint8, "BoolStorage": _core.bool,
        "ComplexFloatStorage": _core.complex64, "ComplexDoubleStorage": _core.complex128,
        "UntypedStorage": _core.uint8,
    }  # fmt: skip


STORAGE_TYPES = {name: StorageType(name) for name in _storage_dtypes()}
# Pickling looks for an object in its module under its name.
globals().update(STORAGE_TYPES)

_EXACT: dict[Place, Place] = {
    ("adjoint", "Generator"): ("torch._C", "Generator"),
    ("adjoint._tensor.device", "device"): ("torch", "device"),
    ("adjoint._tensor.storage", "TypedStorage"): ("torch.storage", "TypedStorage"),
    ("adjoint._tensor.storage", "UntypedStorage"): ("torch.storage", "UntypedStorage"),
    (_rebuild_from_type_v2.__module__, "_rebuild_from_type_v2"):
        ("torch._tensor", "_rebuild_from_type_v2"),
    (_get_layout.__module__, "_get_layout"): ("torch.serialization", "_get_layout"),
    ("adjoint.utils.hooks", "_WrappedHook"): ("torch.nn.modules.module", "_WrappedHook"),
    ("adjoint.nn._linear_cross_entropy", "LinearCrossEntropyOptions"):
        ("torch.nn.modules.linear_cross_entropy_options", "LinearCrossEntropyOptions"),
    (__name__, "UntypedStorage"): ("torch.storage", "UntypedStorage"),
}  # fmt: skip
for _name in REBUILDERS:
    _EXACT[_get_layout.__module__, _name] = ("torch._utils", _name)
for _name in STORAGE_TYPES:
    _EXACT.setdefault((__name__, _name), ("torch", _name))
for _axes in "123":
    for _kind in ("", "Lazy"):
        _home = "_lazy_norms" if _kind else "batchnorm"
        for _norm, _theirs in (("BatchNorm", "batchnorm"), ("InstanceNorm", "instancenorm")):
            _EXACT[f"adjoint.nn.modules.{_home}", f"{_kind}{_norm}{_axes}d"] = (
                f"torch.nn.modules.{_theirs}",
                f"{_kind}{_norm}{_axes}d",
            )

# Modules with other names, or names that PyTorch has elsewhere.
_MODULES = {
    "adjoint": "torch",
    "adjoint._core": "torch",
    "adjoint._tensor.formats": "torch",
    "adjoint.nn.modules._attention": "torch.nn.modules.activation",
    "adjoint.nn.modules._margin_loss": "torch.nn.modules.loss",
    "adjoint.nn.modules.linear_cross_entropy": "torch.nn.modules.loss",
    "adjoint.nn.modules._parameter_containers": "torch.nn.modules.container",
    "adjoint.nn.parallel": "torch.nn.parallel.data_parallel",
    "adjoint.optim._adafactor": "torch.optim",
    "adjoint.optim._muon": "torch.optim",
}
# Rooms whose modules have PyTorch's names. Others (checks, composites, ...) are adjoint's alone.
_ROOMS = (
    "nn", "optim", "utils", "amp", "func", "linalg", "fft", "special", "return_types",
    "distributions",
)  # fmt: skip
# Where names are that PyTorch keeps in modules which adjoint does not have.
_PACKAGES = {
    "torch._C._nn": "nn.functional",
    "torch._C": "",
    "torch._VF": "",
    "torch.nn.modules.module": "utils.hooks",
    "torch.nn.modules": "nn",
    "torch.nn.parallel": "nn",
    "torch.optim": "optim",
    "torch.utils.data": "utils.data",
    "torch.distributions": "distributions",
    "torch.storage": "",
    "torch._tensor": "",
}


def place_in_torch(module: str, name: str) -> Place | None:
    """The module and the name in PyTorch of something of adjoint's; None if it is not there."""
    found = _EXACT.get((module, name))
    if found is not None:
        return found
    theirs = _MODULES.get(module)
    if theirs is not None:
        return theirs, name
    parts = module.split(".")
    if parts[0] != "adjoint" or len(parts) < 2 or parts[1] not in _ROOMS:
        return None
    if parts[:2] == ["adjoint", "nn"] and len(parts) == 3 and parts[2].startswith("_"):
        return "torch.nn.functional", name
    if parts[1:3] == ["optim", "lr_scheduler"]:
        parts = parts[:3]
    elif parts[1] == "distributions" and parts[-1] != "constraints":
        parts = parts[:2]  # all of them are there, in PyTorch too
    return ".".join(["torch", *parts[1:]]), name


_HERE: dict[Place, Any] = {
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type_v2,
    ("torch.serialization", "_get_layout"): _get_layout,
}
for _name, _function in REBUILDERS.items():
    _HERE["torch._utils", _name] = _function
for _name, _type in STORAGE_TYPES.items():
    _HERE["torch", _name] = _HERE["torch.storage", _name] = _type


def found_in_torch(module: str, name: str) -> Any:
    """What a name in PyTorch stands for here.

    Raises
    ------
    LoadError
        adjoint does not have it.
    """
    here = _HERE.get((module, name))
    if here is not None:
        return here
    for place in _candidates(module):
        found: Any = _module(place)
        for part in name.split(".") if found is not None else ():
            found = getattr(found, part, None)
        if found is not None and not isinstance(found, ModuleType):
            return found
    if module == "torch._C" and name == "_VariableFunctionsClass":
        return _module("adjoint")  # of which a pickle takes an op by getattr
    raise LoadError(f"it needs {module}.{name}, which adjoint does not have")


def _candidates(module: str) -> list[str]:
    places = ["adjoint" + module.removeprefix("torch")]
    for package, ours in _PACKAGES.items():
        if module == package or module.startswith(package + "."):
            places.append(f"adjoint.{ours}".removesuffix("."))
    return places


def _module(name: str) -> ModuleType | None:
    found = sys.modules.get(name)
    if found is None:
        try:
            found = importlib.import_module(name)
        except ImportError:
            return None
    return found
