"""Torch's own samples (`op_db`) of every op that both have: values, gradients, forward mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.conformance.opinfo import Unsupported, call_of, convert, database, ours, to_numpy

torch = pytest.importorskip("torch")

RANDOM = ("bernoulli", "normal", "rand", "multinomial", "empty", "dropout", "resize")
# torch's samples of these are for wrappers that take their arguments in another form; zero_ is
# called on a leaf, and the numbers of 'nuc' need linear algebra.
OTHER_FORM = {"einsum", "where", "nn.functional.embedding", "T", "H", "mT", "mH", "zero_"}
ABSENT = ("nn.functional.pad.", "norm.nuc", "polygamma", "special.polygamma")
# In torch the gradient of as_strided_scatter keeps what was overwritten, and forward mode of
# logcumsumexp is off by 1e-6. The others are sums that cancel: of centred values, of one element.
WRONG_IN_TORCH = {"as_strided_scatter", "logcumsumexp", "corrcoef", "nn.functional.normalize"}
CANCELLING_IN_FLOAT32 = {"cov", "nn.functional.layer_norm", "nn.functional.batch_norm"}
NAMES = [
    name
    for name in database()
    if name not in OTHER_FORM
    and not name.startswith(ABSENT)
    and not any(word in name for word in RANDOM)
]
SAMPLES = 4


def tensors(value: Any) -> list[Any]:
    """Return the tensors at any depth, in order."""
    if isinstance(value, torch.Tensor | ad.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors(v)] if isinstance(value, list | tuple) else []


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value with its tensors changed."""
    if isinstance(value, torch.Tensor | ad.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {k: replaced(v, change) for k, v in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(replaced(v, change) for v in value)
    return value


def close(found: Any, wanted: Any, dtype: str, what: str) -> None:
    rtol = 1e-6 if dtype == "float64" else 2e-3
    want = to_numpy(wanted)
    scale = float(np.max(np.abs(want[np.isfinite(want)]), initial=1.0)) if want.size else 1.0
    np.testing.assert_allclose(to_numpy(found), want, rtol, rtol * 1e-2 * scale, err_msg=what)


def drawn(name: str, dtype: str) -> Iterator[tuple[Any, Any, list[Any], dict[str, Any]]]:
    """Give samples with torch's result, and the arguments as ours."""
    op = database()[name]
    kind = getattr(torch, dtype)
    if kind not in op.dtypes:
        return
    samples = list(op.sample_inputs("cpu", kind, requires_grad=op.supports_autograd))
    for sample in samples[:: max(1, len(samples) // SAMPLES)]:
        try:
            args, kwargs = call_of(sample)
        except Unsupported:
            continue
        if name == "gather" and sample.args[1].dtype == torch.uint8:
            continue  # an empty index of any dtype, which is refused here
        if name == "nn.functional.batch_norm" and sample.input.dim() < 2:
            continue  # no channels and no values
        yield sample, op.op(sample.input, *sample.args, **sample.kwargs), args, kwargs


def tangents(library: Any, call: Callable[..., Any], given: Any, directions: list[Any]) -> Any:
    mode = library.autograd.forward_ad
    with mode.dual_level():
        left = iter(directions)
        args, kwargs = replaced(
            given,
            lambda t: mode.make_dual(t.detach(), next(left)) if t.requires_grad else t,
        )
        return [mode.unpack_dual(t).tangent for t in tensors(call(*args, **kwargs))]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_torchs_samples_give_what_they_give_in_torch(name: str, dtype: str) -> None:
    op = database()[name]
    function = ours(op)
    assert function is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample, result, args, kwargs in drawn(name, dtype):
            found, wanted = tensors(function(*args, **kwargs)), tensors(result)
            assert [str(t.dtype) for t in found] == [str(t.dtype) for t in wanted]
            for a, b in zip(found, wanted, strict=True):
                close(a, b, dtype, "value")
            cancels = dtype == "float32" and name in CANCELLING_IN_FLOAT32
            if name in WRONG_IN_TORCH or cancels or not op.supports_autograd:
                continue
            compare_gradients(sample, wanted, [args, kwargs], found, dtype)
            if op.supports_forward_ad:
                compare_tangents(op, function, sample, [args, kwargs], dtype)


def compare_gradients(
    sample: Any, wanted: list[Any], given: list[Any], found: list[Any], dtype: str
) -> None:
    theirs = [t for t in tensors([sample.input, sample.args, sample.kwargs]) if t.requires_grad]
    mine = [t for t in tensors(given) if t.requires_grad]
    assert [t.requires_grad for t in found] == [t.requires_grad for t in wanted]
    tops = [t for t in wanted if t.requires_grad]
    if not tops:
        return
    torch.manual_seed(0)
    weights = [torch.randn(t.shape, dtype=t.dtype) for t in tops]
    try:
        want = torch.autograd.grad(tops, theirs, weights, allow_unused=True)
    except RuntimeError:
        return  # no derivative there
    have = ad.autograd.grad(
        [t for t in found if t.requires_grad],
        mine,
        [convert(w) for w in weights],
        allow_unused=True,
    )
    for i, (a, b) in enumerate(zip(have, want, strict=True)):
        assert (a is None) == (b is None), f"gradient {i}"
        if b is not None:
            close(a, b, dtype, f"gradient {i}")


def compare_tangents(
    op: Any, function: Callable[..., Any], sample: Any, given: list[Any], dtype: str
) -> None:
    torch.manual_seed(1)
    all_of_them = tensors([sample.input, sample.args, sample.kwargs])
    directions = [torch.randn(t.shape, dtype=t.dtype) for t in all_of_them if t.requires_grad]
    theirs = [[sample.input, *sample.args], sample.kwargs]
    try:
        want = tangents(torch, op.op, theirs, directions)
    except (RuntimeError, NotImplementedError):
        return
    have = tangents(ad, function, given, [convert(d) for d in directions])
    for a, b in zip(have, want, strict=True):
        if b is None or a is None:
            assert (a is None or not a.any()) and (b is None or not b.any())
        else:
            close(a, b, dtype, "tangent")
