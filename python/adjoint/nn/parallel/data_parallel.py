"""`DataParallel`: parts of a batch in several threads of this process."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import adjoint as ad
from adjoint import Tensor, _tree
from adjoint._tensor.device import require_cpu
from adjoint.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module whose batch is split among devices; with ``["cpu", "cpu"]``, among two threads.

    Names of parameters begin with ``module.``, as they do in PyTorch. Without `device_ids` the
    module is called as it is: a single large operation uses all cores by itself.

    Parameters
    ----------
    module : Module
        The module; all threads use this one, so that its buffers see every part.
    device_ids : sequence, optional
        One entry per thread, each ``"cpu"``.
    output_device : optional
        Must be None or the CPU.
    dim : int, default 0
        The axis along which tensors are split and results joined.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.Linear(3, 2)
    >>> x = ad.ones(4, 3)
    >>> ad.equal(ad.nn.DataParallel(layer, ["cpu", "cpu"])(x), layer(x))
    True
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        for place in (*(device_ids or ()), output_device):
            require_cpu(place)
        self.module = module
        self.device_ids = list(device_ids or ())
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module returns for the whole batch."""
        return _in_threads(self.module, inputs, kwargs, len(self.device_ids), self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """``module(*inputs, **module_kwargs)``, its batch split among the devices."""
    for place in (*(device_ids or ()), output_device):
        require_cpu(place)
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return _in_threads(module, given, module_kwargs or {}, len(device_ids or ()), dim)


def _in_threads(
    module: Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], threads: int, dim: int
) -> Any:
    leaves, structure = _tree.flatten((inputs, kwargs))
    parts = [leaf.chunk(threads, dim) for leaf in leaves if _is_split(leaf, threads)]
    count = max((len(part) for part in parts), default=1)
    if count < 2:
        return module(*inputs, **kwargs)
    rows = [[_part(leaf, i, threads, dim) for leaf in leaves] for i in range(count)]
    recorded = ad.is_grad_enabled()

    def call(row: list[Any]) -> Any:
        given, named = _tree.unflatten(structure, row)
        with ad.set_grad_enabled(recorded):
            return module(*given, **named)

    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(call, rows))
    flat, shape = zip(*(_tree.flatten(result) for result in results), strict=True)
    joined = [
        ad.cat(same, dim) if isinstance(same[0], Tensor) else same[0]
        for same in zip(*flat, strict=True)
    ]
    return _tree.unflatten(shape[0], joined)


def _is_split(leaf: Any, threads: int) -> bool:
    return threads > 1 and isinstance(leaf, Tensor) and leaf.dim() > 0


def _part(leaf: Any, i: int, threads: int, dim: int) -> Any:
    return leaf.chunk(threads, dim)[i] if _is_split(leaf, threads) else leaf
