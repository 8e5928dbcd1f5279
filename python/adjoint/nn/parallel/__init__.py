"""`DataParallel` on one device: the module itself. There are no groups of processes here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch
from adjoint._refused import refused_class as _refused_class
from adjoint._tensor.device import require_cpu as _require_cpu
from adjoint.nn.modules.module import Module as _Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(_Module):
    """A module that PyTorch would copy to several accelerators; with none, it calls the module.

    Names of parameters begin with ``module.``, as they do there.

    Parameters
    ----------
    module : Module
        The module.
    device_ids : sequence, optional
        Must be empty: adjoint computes on the CPU.
    output_device : optional
        Must be None or the CPU.
    dim : int, default 0
        The axis that would be split.
    """

    def __init__(
        self,
        module: _Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        for place in (*(device_ids or ()), output_device):
            _require_cpu(place)
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: _Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """``module(*inputs, **module_kwargs)``: there is one device."""
    for place in (*(device_ids or ()), output_device):
        _require_cpu(place)
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*given, **(module_kwargs or {}))


DistributedDataParallel = _refused_class(
    "nn.parallel.DistributedDataParallel",
    "adjoint computes in one machine's processes, without collective operations",
    "use the module itself; guard the call by torch.distributed.is_available()",
)

if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)


_watch(__name__)
