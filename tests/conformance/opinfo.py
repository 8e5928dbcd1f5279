"""PyTorch's own samples (`op_db`), turned into ours: which ops both have, tensors, whole calls.

Tensors keep their strides and offset, sparse ones their parts. What has no counterpart here
(quantized dtypes, other devices) is `Unsupported`.
"""

from __future__ import annotations

import dataclasses
import re
import types
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
    *("float64", "complex64", "complex128", "uint16", "uint32", "uint64"),
)
DTYPES = {getattr(torch, name): getattr(ad, name) for name in NAMES}


Memory = dict[tuple[int, Any], ad.Tensor]  # by address and dtype


class Unsupported(Exception):
    """A value that has no counterpart here."""


@cache
def entries() -> dict[str, Any]:
    """Return torch's descriptions of all ops that its CPU build has, by name and variant.

    Left out is what only a GPU has (`jiterator_*`, scaled products) and torch's private names.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    torch.backends.opt_einsum.enabled = False
    return {
        op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op
        for op in module.op_db
        if op.dtypes and not re.match(r"jiterator|torch\.|_(?!_)", op.name) and has_name(op)
    }


def has_name(op: Any) -> bool:
    """Say whether people can call it by a name of torch's, not only as an operator of `ops`."""
    return not isinstance(op.op, torch._ops.OpOverload) or hasattr(torch, op.name)


@cache
def database() -> dict[str, Any]:
    """Return those of the entries that are here as well."""
    return {name: op for name, op in entries().items() if ours(op) is not None}


def named(name: str) -> Callable[..., Any] | None:
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
    return getattr(ad.Tensor, name, None) or getattr(ad.Tensor, name + "_", None)


def ours(op: Any) -> Callable[..., Any] | None:
    """Return what we have for an entry: its function, or torch's test wrapper around ours."""
    found = named(op.name)
    wrapper = getattr(op.op, "__module__", None) or ""
    return rebound(op.op) if found is not None and wrapper.startswith("torch.testing") else found


def rebound(function: Any) -> Any:
    """Return a function of torch's tests with our library under the name `torch`."""
    if not isinstance(function, types.FunctionType):
        return function
    names = function.__globals__ | {"torch": ad, "wrapper_set_seed": seeded}
    made = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def seed_torch(seed: int) -> None:
    """torch.manual_seed without its word to each kind of GPU, which keeps a traceback per call."""
    torch.default_generator.manual_seed(seed)


def seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call with the seed that torch's own wrapper sets."""
    state = ad.get_rng_state()
    ad.manual_seed(42)
    try:
        return function(*args, **kwargs)
    finally:
        ad.set_rng_state(state)


def flat_tensor(values: Any) -> ad.Tensor:
    """Return a copy in memory of its own, so that it can be resized."""
    if values.dtype is torch.bfloat16:
        return ad.from_numpy(values.view(torch.int16).numpy()).view(ad.bfloat16).clone()
    return ad.from_numpy(values.numpy()).clone()


PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
}


def to_sparse(t: Any) -> ad.Tensor:
    """Return a sparse tensor with the same parts."""
    parts = [to_tensor(getattr(t.detach(), name)()) for name in PARTS[t.layout]]
    make = getattr(ad, f"{str(t.layout).removeprefix('torch.')}_tensor")
    made: ad.Tensor = make(*parts, tuple(t.shape))
    made = made.coalesce() if t.is_sparse and t.is_coalesced() else made
    return made.requires_grad_() if t.requires_grad else made


def to_tensor(t: Any, shared: Memory | None = None) -> ad.Tensor:
    """Return a tensor with the same values in the same places of memory of its own.

    Tensors that share memory share that of one of ours if both are given the same `shared`.
    """
    if t.layout in PARTS:
        return to_sparse(t)
    if t.dtype in DTYPES and t.device.type == "meta":
        return ad.empty(tuple(t.shape), dtype=DTYPES[t.dtype], device="meta")
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
        place = (memory.data_ptr(), t.dtype)
        ours = flat_tensor(flat) if shared is None else shared.setdefault(place, flat_tensor(flat))
        made = ours.as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset())
    made = made.detach()
    return made.requires_grad_() if t.requires_grad else made


def convert(value: Any, shared: Memory | None = None) -> Any:
    """Return the value, at any depth, as it is given to our functions."""
    if isinstance(value, torch.Tensor):
        return to_tensor(value, shared)
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
    if isinstance(value, types.FunctionType) and value.__module__.startswith("torch.testing"):
        return rebound(value)
    if isinstance(value, torch.nn.Module):
        return getattr(ad.nn, type(value).__name__)()
    if isinstance(value, torch.nn.LinearCrossEntropyOptions):
        return ad.nn.LinearCrossEntropyOptions(*(convert(v) for v in dataclasses.astuple(value)))
    if isinstance(value, torch.Size):
        return ad.Size(value)
    if isinstance(value, list | tuple):
        return type(value)(convert(v, shared) for v in value)
    if isinstance(value, dict):
        return {k: convert(v, shared) for k, v in value.items()}
    return value


def call_of(sample: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of torch's sample, as ours."""
    memory: Memory = {}
    given = [sample.input, *sample.args]
    return convert(given, memory), convert(sample.kwargs, memory)


def to_numpy(t: Any) -> np.ndarray[Any, Any]:
    """Return a tensor of either library, halves as float32."""
    t = t.detach()
    if str(t.layout) != "torch.strided":
        t = t.to_dense()
    if str(t.dtype) in ("torch.bfloat16", "torch.float16"):
        t = t.to(ad.float32 if isinstance(t, ad.Tensor) else torch.float32)
    return t.numpy(force=True)  # type: ignore[no-any-return]
