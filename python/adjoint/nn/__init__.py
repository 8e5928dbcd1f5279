"""Neural-network building blocks: modules, parameters, losses, initialisers.

Read next: `modules/module.py` for what a module is, `functional.py` for the functions they call.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch
from adjoint.nn import functional as functional
from adjoint.nn import init as init
from adjoint.nn import modules as modules
from adjoint.nn import parameter as parameter
from adjoint.nn import utils as utils
from adjoint.nn.modules import *  # noqa: F403
from adjoint.nn.modules import __all__ as _module_names
from adjoint.nn.parameter import Buffer as Buffer
from adjoint.nn.parameter import Parameter as Parameter
from adjoint.nn.parameter import UninitializedBuffer as UninitializedBuffer
from adjoint.nn.parameter import UninitializedParameter as UninitializedParameter

if _TYPE_CHECKING:
    from adjoint.nn import _reduction as _reduction
    from adjoint.nn import attention as attention
    from adjoint.nn import common_types as common_types
    from adjoint.nn import grad as grad
    from adjoint.nn import parallel as parallel
    from adjoint.nn.parallel import DataParallel as DataParallel

__all__ = [
    "DataParallel",
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "common_types",
    "factory_kwargs",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
    *_module_names,
]


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """The arguments that creation functions take: device, dtype and memory format.

    Parameters
    ----------
    kwargs : dict
        Only these names, or a ``factory_kwargs`` with those that are taken otherwise.

    Raises
    ------
    TypeError
        There are others.
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    unexpected = kwargs.keys() - (simple | {"factory_kwargs"})
    if unexpected:
        raise TypeError(f"unexpected kwargs {unexpected}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in simple & kwargs.keys():
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _Any:
        # What few programs need is loaded at its first use.
        if name in ("_reduction", "attention", "common_types", "grad", "parallel"):
            return _import_module(f"adjoint.nn.{name}")
        if name == "DataParallel":
            return _import_module("adjoint.nn.parallel").DataParallel
        raise _missing(__name__, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


_watch(__name__)
