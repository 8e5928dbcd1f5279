"""Working on a module's parameters: limiting gradients, one vector, parametrizations, pruning.

`parametrize`, `parametrizations`, `prune` and `rnn` are modules of their own; what few programs
need is loaded at its first use.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from adjoint._missing import missing as _missing
from adjoint.nn.utils import rnn as rnn
from adjoint.nn.utils import stateless as stateless
from adjoint.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from adjoint.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

if _TYPE_CHECKING:
    from adjoint.nn.utils import parametrizations as parametrizations
    from adjoint.nn.utils import parametrize as parametrize
    from adjoint.nn.utils import prune as prune
    from adjoint.nn.utils.fusion import (
        fuse_conv_bn_eval,
        fuse_conv_bn_weights,
        fuse_linear_bn_eval,
        fuse_linear_bn_weights,
    )
    from adjoint.nn.utils.init import skip_init
    from adjoint.nn.utils.memory_format import (
        convert_conv2d_weight_memory_format,
        convert_conv3d_weight_memory_format,
    )
    from adjoint.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
    from adjoint.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

# Which file has what is loaded at its first use.
_FILES = {
    "fusion": (
        "fuse_conv_bn_eval",
        "fuse_conv_bn_weights",
        "fuse_linear_bn_eval",
        "fuse_linear_bn_weights",
    ),
    "init": ("skip_init",),
    "memory_format": (
        "convert_conv2d_weight_memory_format",
        "convert_conv3d_weight_memory_format",
    ),
}
# Functions that have the name of their file, which importing the file would put in their place.
_NAMESAKES = {
    "spectral_norm": ("remove_spectral_norm", "spectral_norm"),
    "weight_norm": ("remove_weight_norm", "weight_norm"),
}


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _Any:
        if name in ("parametrizations", "parametrize", "prune", *_FILES):
            return _import_module(f"adjoint.nn.utils.{name}")
        for file, names in (_FILES | _NAMESAKES).items():
            if name in names:
                module = _import_module(f"adjoint.nn.utils.{file}")
                for each in names:
                    globals()[each] = getattr(module, each)
                return globals()[name]
        raise _missing(__name__, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
