"""PyTorch's own samples (`op_db`), turned into ours: which ops both have, tensors, whole calls.

Tensors keep their strides and offset. What has no counterpart here (sparse tensors, quantized
dtypes, other devices) is `Unsupported`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which torch's own test modules import

NAMES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128"),
)
DTYPES = {getattr(torch, name): getattr(ad, name) for name in NAMES}


class Unsupported(Exception):
    """A value that has no counterpart here."""


@cache
def database() -> dict[str, Any]:
    """Return torch's descriptions of the ops that are here as well, by name and variant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    torch.backends.opt_einsum.enabled = False
    found = {}
    for op in module.op_db:
        if ours(op.name) is not None:
            variant = f".{op.variant_test_name}" if op.variant_test_name else ""
            found[op.name + variant] = op
    return found


def ours(name: str) -> Callable[..., Any] | None:
    """Return our function (or method) of a name such as "nn.functional.relu"."""
    found: Any = ad
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except (AttributeError, NotImplementedError):
            found = None
            break
    if callable(found):
        return found  # type: ignore[no-any-return]
    return getattr(ad.Tensor, name, None)


def flat_tensor(values: Any) -> ad.Tensor:
    if values.dtype is torch.bfloat16:
        return ad.from_numpy(values.view(torch.int16).numpy().copy()).view(ad.bfloat16)
    return ad.from_numpy(values.numpy().copy())


def to_tensor(t: Any) -> ad.Tensor:
    """Return a tensor with the same values in the same places of memory of its own."""
    if t.dtype not in DTYPES or t.layout != torch.strided or t.device.type != "cpu":
        raise Unsupported(f"{t.dtype}, {t.layout}, {t.device}")
    plain = t.detach()
    if plain.is_conj() or plain.is_neg() or not plain.numel():
        plain = plain.resolve_conj().resolve_neg().contiguous()
        made = flat_tensor(plain.reshape(-1)).view(tuple(t.shape))
    else:
        memory = plain.untyped_storage()
        count = memory.nbytes() // plain.element_size()
        flat = torch.empty(0, dtype=t.dtype).set_(memory, 0, (count,), (1,)).clone()
        made = flat_tensor(flat).as_strided(
            tuple(plain.shape), plain.stride(), plain.storage_offset()
        )
    made = made.detach()
    return made.requires_grad_() if t.requires_grad else made


def convert(value: Any) -> Any:
    """Return the value, at any depth, as it is given to our functions."""
    if isinstance(value, torch.Tensor):
        return to_tensor(value)
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise Unsupported(str(value))
        return DTYPES[value]
    if isinstance(value, torch.device):
        return ad.device(str(value))
    if isinstance(value, torch.memory_format | torch.layout):
        found = getattr(ad, str(value).removeprefix("torch."), None)
        if found is None:
            raise Unsupported(str(value))
        return found
    if isinstance(value, torch.Generator):
        raise Unsupported("a generator")
    if isinstance(value, torch.Size):
        return ad.Size(value)
    if isinstance(value, list | tuple):
        return type(value)(convert(v) for v in value)
    if isinstance(value, dict):
        return {k: convert(v) for k, v in value.items()}
    return value


def call_of(sample: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of torch's sample, as ours."""
    return [convert(sample.input), *convert(list(sample.args))], convert(sample.kwargs)


def to_numpy(t: Any) -> np.ndarray[Any, Any]:
    """Return a tensor of either library, halves as float32."""
    t = t.detach()
    if str(t.dtype) in ("torch.bfloat16", "torch.float16"):
        t = t.to(ad.float32 if isinstance(t, ad.Tensor) else torch.float32)
    return t.numpy(force=True)  # type: ignore[no-any-return]
