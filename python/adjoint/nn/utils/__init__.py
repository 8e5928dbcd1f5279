"""Working on all parameters at once: limiting gradients, joining into one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
from adjoint.nn.utils import rnn as rnn
from adjoint.nn.utils import stateless as stateless
from adjoint.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_, get_total_norm
from adjoint.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "stateless",
    "vector_to_parameters",
]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
