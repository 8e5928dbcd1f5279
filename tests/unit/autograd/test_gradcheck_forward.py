"""gradcheck of forward mode: what is asked of it, and what is said when it is wrong.

The functions here carry their tangents themselves, through ``make_dual`` and ``unpack_dual`` of a
stand-in for ``adjoint.autograd.forward_ad``: gradcheck's own part is on trial, with tangents as
wrong as a test needs them. Read next: python/adjoint/autograd/_gradcheck/forward.py.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck
from adjoint.autograd.gradcheck import GradcheckError

both_modes = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
Function = Callable[..., Any]


class Dual(NamedTuple):
    primal: Any
    tangent: Any


class ForwardAD(ModuleType):
    """Tangents in a table by the identity of their tensors."""

    def __init__(self) -> None:
        super().__init__("adjoint.autograd.forward_ad")
        self.level = -1
        self.table: dict[int, tuple[Any, Any]] = {}

    @contextlib.contextmanager
    def dual_level(self) -> Iterator[int]:
        self.level += 1
        yield self.level
        self.level -= 1
        self.table.clear()

    def make_dual(self, tensor: Any, tangent: Any) -> Any:
        assert self.level >= 0
        assert tensor.shape == tangent.shape
        view = tensor.detach() * 1
        self.table[id(view)] = (view, tangent)
        return view

    def unpack_dual(self, tensor: Any) -> Dual:
        return Dual(tensor, self.table.get(id(tensor), (None, None))[1])


@pytest.fixture
def forward_ad(monkeypatch: pytest.MonkeyPatch) -> ForwardAD:
    module = ForwardAD()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(ad.autograd, "forward_ad", module, raising=False)
    return module


def leaf(*values: complex, dtype: Any = ad.float64) -> Any:
    return ad.tensor(values, dtype=dtype, requires_grad=True)


def lifted(forward_ad: ForwardAD, func: Function, jvp: Function) -> Function:
    """``func`` of several tensors with one output, its tangent by ``jvp(primals, tangents)``."""

    def run(*args: Any) -> Any:
        duals = [forward_ad.unpack_dual(a) for a in args]
        output = func(*args)
        if forward_ad.level < 0 or all(d.tangent is None for d in duals):
            return output
        return forward_ad.make_dual(output, jvp([d.primal for d in duals], [d[1] for d in duals]))

    return run


def product_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return (0 if dx is None else dx * y) + (0 if dy is None else x * dy)


@both_modes
def test_right_tangents_pass(forward_ad: ForwardAD, fast: bool) -> None:
    x, y = leaf(0.5, -2.0), leaf(1.5, 0.25)
    func = lifted(forward_ad, lambda x, y: x * y, product_jvp)
    assert gradcheck(func, (x, y), check_forward_ad=True, fast_mode=fast)
    assert gradcheck(func, (x, y), check_forward_ad=True, check_backward_ad=False, fast_mode=fast)
    z = leaf(1 + 2j, 0.5 - 1j, dtype=ad.complex128)
    assert gradcheck(func, (x, z), check_forward_ad=True, fast_mode=fast)
    assert gradcheck(
        func, (z, leaf(3j, 1.0, dtype=ad.complex128)), check_forward_ad=True, fast_mode=fast
    )


@both_modes
@pytest.mark.parametrize("dtype", [ad.float64, ad.complex128], ids=str)
def test_wrong_tangents_are_found(forward_ad: ForwardAD, fast: bool, dtype: Any) -> None:
    func = lifted(forward_ad, lambda x, y: x * y, lambda p, t: t[0] * p[1] + 1.1 * p[0] * t[1])
    inputs = (leaf(0.5, -2.0, dtype=dtype), leaf(1.5, 0.25, dtype=dtype))
    assert gradcheck(func, inputs, fast_mode=fast)  # backward is right
    with pytest.raises(
        GradcheckError,
        match="Jacobian computed with forward mode mismatch for output 0 with respect to input 1",
    ) as caught:
        gradcheck(func, inputs, check_forward_ad=True, fast_mode=fast)
    assert "is 1.1 times the numerical one" in str(caught.value)


@both_modes
def test_an_output_without_tangent_has_the_derivative_zero(
    forward_ad: ForwardAD, fast: bool
) -> None:
    x = leaf(0.5, 2.0)
    with pytest.raises(GradcheckError, match="forward mode mismatch") as caught:
        gradcheck(lambda x: x * 2, (x,), check_forward_ad=True, fast_mode=fast)
    assert "likely cause  no path leads" in str(caught.value)


def test_the_function_sees_no_requires_grad(forward_ad: ForwardAD) -> None:
    seen = []

    def func(x: Any, n: int, y: Any) -> Any:
        if forward_ad.level >= 0:
            seen.append((x.requires_grad, y.requires_grad))
        return lifted(forward_ad, lambda x: x * n, lambda p, t: t[0] * n)(x)

    fixed = ad.ones(2, dtype=ad.float64)
    options = {"check_forward_ad": True, "check_backward_ad": False}
    assert gradcheck(func, (leaf(1.0, 2.0), 3, fixed), **options)
    assert seen
    assert set(seen) == {(False, False)}


def test_pushes_are_counted(forward_ad: ForwardAD) -> None:
    """One per coordinate; two more per input for missing tangents, or one if it is the only one."""
    calls = 0

    def jvp(primals: Any, tangents: Any) -> Any:
        nonlocal calls
        calls += 1
        return product_jvp(primals, tangents)

    func = lifted(forward_ad, lambda x, y: x * y, jvp)
    options = {"check_forward_ad": True, "check_backward_ad": False}
    for y, undefined, expected in (
        (leaf(2.0), False, 2),
        (leaf(2.0), True, 6),
        (ad.tensor([2.0], dtype=ad.float64), True, 2),
    ):
        calls = 0
        assert gradcheck(func, (leaf(1.5), y), check_undefined_grad=undefined, **options)
        assert calls == expected


def test_an_input_without_tangent_must_count_as_zeros(forward_ad: ForwardAD) -> None:
    def jvp(primals: Any, tangents: Any) -> Any:
        missing = tangents[1] is None
        return product_jvp(primals, tangents) * (2 if missing else 1)

    func = lifted(forward_ad, lambda x, y: x * y, jvp)
    inputs, options = (leaf(1.5), leaf(2.0)), {"check_forward_ad": True}
    with pytest.raises(
        GradcheckError, match="to handle undefined tangents: without a tangent for input 1, that of"
    ):
        gradcheck(func, inputs, **options)
    assert gradcheck(func, inputs, check_undefined_grad=False, **options)


def test_tangents_must_have_the_shape_of_their_outputs(forward_ad: ForwardAD) -> None:
    def func(x: Any) -> Any:
        output = x * 2
        if forward_ad.level >= 0:
            forward_ad.table[id(output)] = (output, ad.ones(5, dtype=ad.float64))
        return output

    with pytest.raises(GradcheckError, match=r"output of shape \[2\] has shape \[5\]"):
        gradcheck(func, (leaf(1.0, 2.0),), check_forward_ad=True)


def in_a_loop(func: Function) -> Function:
    def batched(rows: Any) -> Any:
        return tuple(ad.stack(column) for column in zip(*map(func, rows), strict=True))

    return batched


def test_batches_of_tangents_are_checked_on_request(
    forward_ad: ForwardAD, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adjoint.autograd._gradcheck import forward

    func = lifted(forward_ad, lambda x, y: x * y, product_jvp)
    inputs = (leaf(1.5, 2.0), leaf(2.0, 3.0))
    options = {"check_forward_ad": True, "check_batched_forward_grad": True}
    monkeypatch.setattr(forward, "_vmap", lambda: in_a_loop)
    assert gradcheck(func, inputs, **options)

    def off(func: Function) -> Function:
        return lambda rows: tuple(t + 1 for t in in_a_loop(func)(rows))

    monkeypatch.setattr(forward, "_vmap", lambda: off)
    with pytest.raises(GradcheckError, match="row 0 of the batch differs from the tangent alone"):
        gradcheck(func, inputs, **options)

    def refused(func: Function) -> Function:
        raise RuntimeError("no batching rule")

    monkeypatch.setattr(forward, "_vmap", lambda: refused)
    with pytest.raises(GradcheckError, match="of input 0 raises RuntimeError: no batching rule"):
        gradcheck(func, inputs, **options)


def test_batches_need_vmap(forward_ad: ForwardAD, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adjoint.func", None)
    func = lifted(forward_ad, lambda x: x * 2, lambda p, t: t[0] * 2)
    with pytest.raises(NotImplementedError, match=r"needs adjoint\.func\.vmap"):
        gradcheck(func, (leaf(1.0),), check_forward_ad=True, check_batched_forward_grad=True)


# ---------------------------------------------------------------------------------------------
# With forward mode itself


@both_modes
def test_operations_agree_in_forward_mode(fast: bool) -> None:
    x, y = leaf(0.5, -2.0), leaf(1.5, 0.25)
    options = {"check_forward_ad": True, "fast_mode": fast}
    assert gradcheck(lambda x, y: (x.sin() * y, y.exp()), (x, y), **options)
    z = leaf(1 + 2j, 0.5 - 1j, dtype=ad.complex128)
    assert gradcheck(lambda x, z: (x * z.conj(), z.abs()), (x, z), **options)


@both_modes
def test_a_changed_tangent_is_found_in_forward_mode(fast: bool) -> None:
    from adjoint.autograd import forward_ad as real

    def func(x: Any, y: Any) -> Any:
        if real._current_level >= 0:
            primal, tangent = real.unpack_dual(y)
            y = real.make_dual(primal, tangent * 1.1)
        return x + y, y

    with pytest.raises(GradcheckError, match="with forward mode mismatch for output 0") as caught:
        gradcheck(func, (leaf(1.0, 2.0), leaf(3.0, 4.0)), check_forward_ad=True, fast_mode=fast)
    assert "with respect to input 1" in str(caught.value)


@both_modes
def test_second_derivatives_by_forward_over_backward(fast: bool) -> None:
    x, y = leaf(0.5, -2.0), leaf(1.5, 0.25)
    options = {"check_fwd_over_rev": True, "fast_mode": fast}
    for both in (True, False):
        assert gradgradcheck(lambda x, y: x.sin() * y, (x, y), check_rev_over_rev=both, **options)

    def cut(x: Any) -> Any:
        z = x.clone()
        factor = ad.tensor(x.detach().tolist(), dtype=ad.float64)
        z.register_hook(lambda g: None if g is None else g * 2 * factor)
        return z + (x * x - x).detach()

    assert gradcheck(cut, (x,), fast_mode=fast)
    with pytest.raises(GradcheckError, match="mismatch for output 0 with respect to input 0"):
        gradgradcheck(cut, (x,), check_rev_over_rev=False, **options)
