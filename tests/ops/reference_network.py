"""The references of products, shapes, indexing, losses and casts. Read `references.py` first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.ops.spec import Array, round_to


def added(x: Array, a: Array, b: Array, beta: Any = 1, alpha: Any = 1) -> Any:
    return (np.multiply(x, beta) if beta else 0) + np.multiply(np.matmul(a, b), alpha)


def linear(x: Array, weight: Array, bias: Any = None) -> Any:
    out = np.matmul(x, weight.T)
    return out if bias is None else out + bias


def einsum(text: str, *arrays: Array) -> Any:
    return np.einsum(text.replace(" ", ""), *arrays)


def flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Any:
    shape = x.shape or (1,)
    end = end_dim % len(shape)
    return x.reshape((*shape[:start_dim], -1 if x.size else 0, *shape[end + 1 :]))


def squeeze(x: Array, dim: Any = None) -> Any:
    """NumPy refuses an axis that is not of size one; here it stays."""
    if dim is None:
        return np.squeeze(x)
    dims = dim if isinstance(dim, tuple) else (dim,)
    return np.squeeze(x, axis=tuple(d for d in dims if x.shape[d] == 1))


def expand(x: Array, size: tuple[int, ...]) -> Any:
    shape = (1,) * (len(size) - x.ndim) + x.shape
    return np.broadcast_to(x, [n if s == -1 else s for s, n in zip(size, shape, strict=True)])


def split(x: Array, sizes: Any, dim: int = 0) -> Any:
    if isinstance(sizes, int):
        return np.split(x, range(sizes, max(x.shape[dim], 1), sizes), axis=dim)
    return np.split(x, np.cumsum(sizes)[:-1], axis=dim)


def chunk(x: Array, chunks: int, dim: int = 0) -> Any:
    return split(x, -(-x.shape[dim] // chunks), dim)


def narrow(x: Array, dim: int, start: int, length: int) -> Any:
    return np.take(x, range(start, start + length), axis=dim)


def places(size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> Array:
    """The positions in memory of a tensor with these strides."""
    at = np.indices(size).reshape(len(size), -1) if size else np.zeros((0, 1), int)
    return np.asarray(offset + np.asarray(stride, int) @ at, int).reshape(size)


def as_strided_scatter(x: Array, src: Array, size: Any, stride: Any, offset: int = 0) -> Any:
    out = x.copy().reshape(-1)
    out[places(size, stride, offset)] = src
    return out.reshape(x.shape)


def select_scatter(x: Array, src: Array, dim: int, index: int) -> Any:
    out = x.copy()
    np.moveaxis(out, dim, 0)[index] = src
    return out


def slice_scatter(
    x: Array, src: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    out = x.copy()
    np.moveaxis(out, dim, 0)[start:end:step] = np.moveaxis(src, dim, 0)
    return out


def sum_to_size(x: Array, size: tuple[int, ...]) -> Any:
    x = x.sum(axis=tuple(range(x.ndim - len(size))))
    return x.sum(axis=tuple(i for i, n in enumerate(size) if n == 1), keepdims=True)


def gather(x: Array, dim: int, index: Array) -> Any:
    # take_along_axis wants equal shapes off the axis; gather reads a corner of `x`.
    corner = tuple(
        slice(None) if d == dim % x.ndim else slice(n) for d, n in enumerate(index.shape)
    )
    return np.take_along_axis(x[corner], index, axis=dim)


def take_along_dim(x: Array, index: Array, dim: int | None = None) -> Any:
    if dim is None:
        return x.reshape(-1)[index]
    shape = list(
        np.broadcast_shapes(
            *([(*s[:dim], 1, *s[dim + 1 :]) for s in (x.shape, _lift(index, x).shape)])
        )
    )
    shape[dim] = _lift(index, x).shape[dim]
    source = list(shape)
    source[dim] = x.shape[dim]
    return np.take_along_axis(
        np.broadcast_to(x, source), np.broadcast_to(_lift(index, x), shape), dim
    )


def _lift(index: Array, x: Array) -> Array:
    return index.reshape((1,) * (x.ndim - index.ndim) + index.shape)


def cells(x: Array, dim: int, index: Array) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs (place in `src`, place in `x`) of a scatter."""
    dim = dim % x.ndim
    return [(at, (*at[:dim], int(index[at]), *at[dim + 1 :])) for at in np.ndindex(index.shape)]


def scatter(x: Array, dim: int, index: Array, src: Any, reduce: str = "") -> Any:
    out = x.copy()
    for at, to in cells(x, dim, index):
        value = src[at] if isinstance(src, np.ndarray) else src
        old = out[to]
        out[to] = old + value if reduce == "add" else old * value if reduce == "multiply" else value
    return out


def scatter_reduce(
    x: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool = True
) -> Any:
    reducers: dict[str, Callable[..., Any]] = {
        "sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min,
    }  # fmt: skip
    groups: dict[tuple[int, ...], list[Any]] = {}
    for at, to in cells(x, dim, index):
        groups.setdefault(to, [x[to]] if include_self else []).append(src[at])
    out = x.copy()
    for to, values in groups.items():
        out[to] = reducers[reduce](values)
    return out


def index_add(x: Array, dim: int, index: Array, src: Array, alpha: Any = 1) -> Any:
    out = np.moveaxis(x.copy(), dim, 0)
    np.add.at(out, index, np.moveaxis(src * np.asarray(alpha, x.dtype), dim, 0))
    return np.moveaxis(out, 0, dim)


def masked_fill(x: Array, mask: Array, value: Any) -> Any:
    return np.where(mask, np.asarray(value, x.dtype), x)


def masked_select(x: Array, mask: Array) -> Any:
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


def softmax(x: Array, dim: int) -> Any:
    e = np.exp(x)
    return e / np.sum(e, axis=dim, keepdims=True) if x.ndim else np.ones_like(x)


def log_softmax(x: Array, dim: int) -> Any:
    return x - np.log(np.sum(np.exp(x), axis=dim, keepdims=True)) if x.ndim else np.zeros_like(x)


def nll_loss(
    x: Array, target: Array, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    axis = 1 if x.ndim > 1 else 0
    weight = np.ones(x.shape[axis], x.dtype) if weight is None else weight
    w = np.where(target == ignore_index, 0, weight[target])
    taken = np.take_along_axis(x, np.expand_dims(target, axis), axis).squeeze(axis)
    losses = -w * taken
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / w.sum()}[reduction]


def cross_entropy(
    x: Array,
    target: Array,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    axis = 1 if x.ndim > 1 else 0
    logs = log_softmax(x, axis)
    if target.dtype.kind == "f":
        losses = -(target * logs).sum(axis)
        return {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
    hard = nll_loss(logs, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return hard
    # Every class gets its share of the smoothing, weighted by that class's weight.
    w = np.ones(x.shape[axis], x.dtype) if weight is None else weight
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    spread = -(logs * w.reshape(shape)).sum(axis)
    total = {"none": spread, "sum": spread.sum(), "mean": spread.sum() / w[target].sum()}[reduction]
    return (1 - label_smoothing) * hard + label_smoothing / x.shape[axis] * total


def mse_loss(x: Array, y: Array, reduction: str = "mean") -> Any:
    squares = (x - y) ** 2
    return {"none": squares, "sum": squares.sum(), "mean": squares.mean()}[reduction]


def reduced(losses: Any, reduction: str) -> Any:
    return {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]


def smooth_l1_loss(x: Array, y: Array, reduction: str = "mean", beta: float = 1.0) -> Any:
    size = abs(x - y)
    curved = size**2 / (2 * beta) if beta else size
    return reduced(np.where(size < beta, curved, size - beta / 2), reduction)


def huber_loss(x: Array, y: Array, reduction: str = "mean", delta: float = 1.0) -> Any:
    size = abs(x - y)
    return reduced(np.where(size <= delta, size**2 / 2, delta * (size - delta / 2)), reduction)


def binary_cross_entropy(x: Array, y: Array, weight: Any = 1, reduction: str = "mean") -> Any:
    return reduced(-weight * (y * np.log(x) + (1 - y) * np.log1p(-x)), reduction)


def with_logits(
    x: Array, y: Array, weight: Any = 1, pos_weight: Any = 1, reduction: str = "mean"
) -> Any:
    softplus = np.log1p(np.exp(-x))
    return reduced(weight * ((1 - y) * x + (1 + (pos_weight - 1) * y) * softplus), reduction)


def rms_norm(x: Array, shape: tuple[int, ...], weight: Any = 1, eps: float | None = None) -> Any:
    eps = np.finfo(x.dtype).eps if eps is None else eps
    return x / np.sqrt((x**2).mean(tuple(range(-len(shape), 0)), keepdims=True) + eps) * weight


def layer_norm(
    x: Array, shape: tuple[int, ...], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(axes, keepdims=True) if x.size else x
    out = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps) if x.size else x
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def gelu(x: Array, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.longdouble(np.pi)) * (x + 0.044715 * x**3)))
    return x * special.ndtr(np.asarray(x, np.float64))


def cast(dtype: str) -> Callable[..., Any]:
    def convert(x: Array, *_: Any) -> Any:
        return x != 0 if dtype == "bool" else round_to(x, dtype)

    return convert


CASTS = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8", "bool")
NETWORK: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), np.matmul), "outer": np.outer,
    "inner": np.inner, "kron": np.kron,
    "cross": lambda a, b, dim=-1: np.cross(a, b, axis=dim),
    "addmm": added, "baddbmm": added, "addmv": added, "linear": linear,
    "vdot": lambda a, b: np.matmul(np.conj(a), b), "einsum": einsum,
    "tensordot": lambda a, b, dims: np.tensordot(a, b, axes=dims),
    "reshape": np.reshape, "view": np.reshape, "flatten": flatten, "squeeze": squeeze,
    "unsqueeze": lambda x, dim: np.expand_dims(x, dim),
    "transpose": lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x, "permute": np.transpose,
    "movedim": np.moveaxis, "expand": expand, "repeat": lambda x, sizes: np.tile(x, sizes),
    "cat": lambda xs, dim=0: np.concatenate(xs, axis=dim), "stack": lambda xs,
    dim=0: np.stack(xs, axis=dim),
    "split": split, "chunk": chunk,
    "unbind": lambda x, dim=0: tuple(np.moveaxis(x, dim, 0)), "narrow": narrow,
    "select": lambda x, dim, index: np.take(x, index, axis=dim), "flip": np.flip, "roll": np.roll,
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
    "as_strided": lambda x, *how: x.reshape(-1)[places(*how)],
    "as_strided_scatter": as_strided_scatter, "select_scatter": select_scatter,
    "slice_scatter": slice_scatter, "sum_to_size": sum_to_size,
    "conj": np.conj, "real": np.real, "imag": np.imag,
    "tril": np.tril, "triu": np.triu, "diag": np.diag,
    "gather": gather, "take_along_dim": take_along_dim,
    "index_select": lambda x, dim, index: np.take(x, index, axis=dim),
    "masked_fill": masked_fill, "masked_select": masked_select, "scatter": scatter,
    "scatter_scalar": scatter, "scatter_add": lambda x, dim, index,
    src: scatter(x, dim, index, src, "add"),
    "scatter_reduce": scatter_reduce, "index_add": index_add,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
    "gelu": gelu, "silu": lambda x: x / (1 + np.exp(-x)), "softmax": softmax,
    "log_softmax": log_softmax,
    "cross_entropy": cross_entropy, "nll_loss": nll_loss, "mse_loss": mse_loss,
    "layer_norm": layer_norm, "rms_norm": rms_norm, "huber_loss": huber_loss,
    "l1_loss": lambda x, y, reduction="mean": reduced(abs(x - y), reduction),
    "smooth_l1_loss": smooth_l1_loss, "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_with_logits": with_logits,
    "clone": np.copy, "contiguous": np.copy, "to": cast("float32"), "type": cast("float64"),
    **{f"to_{d}": cast(d) for d in CASTS},
}  # fmt: skip
