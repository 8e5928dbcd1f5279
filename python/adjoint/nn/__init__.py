"""Neural-network building blocks: modules, parameters, losses, initialisers.

Read next: `modules/module.py` for what a module is, `functional.py` for the functions they call.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
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

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "parameter",
    "utils",
    *_module_names,
]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
