"""Dual tensors: levels, packing, views and in-place changes, modes, memory, messages."""

from __future__ import annotations

import gc
import weakref

import pytest

import adjoint as ad
from adjoint.autograd import forward_ad as fw


def dual(values: list[float], tangent: list[float]) -> ad.Tensor:
    return fw.make_dual(ad.tensor(values), ad.tensor(tangent))


def tangent(t: ad.Tensor) -> list[float] | None:
    found = fw.unpack_dual(t).tangent
    return None if found is None else found.tolist()


# --- levels and packing -------------------------------------------------------------------------
def test_a_dual_shares_memory_and_keeps_the_tangent_it_was_given() -> None:
    x, v = ad.tensor([1.0, 2.0]), ad.tensor([3.0, 4.0])
    with fw.dual_level() as level:
        assert level == 0
        d = fw.make_dual(x, v)
        assert d.data_ptr() == x.data_ptr()
        assert fw.unpack_dual(d).tangent is v
        assert fw.unpack_dual(x).tangent is None
        primal = fw.unpack_dual(d).primal
        assert fw.unpack_dual(primal).tangent is None
        x.add_(1)
        assert primal.tolist() == [2.0, 3.0] and primal._version == x._version
    assert fw.unpack_dual(d) == (d, None)


def test_a_level_that_ends_takes_its_tangents_with_it() -> None:
    x = ad.ones(2)
    v = ad.ones(2)
    gone = weakref.ref(v)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        y = d * 2
        del v
        assert gone() is not None
    assert gone() is None
    with fw.dual_level():
        assert tangent(d) is None and tangent(y) is None and tangent(d + y) is None


def test_a_tangent_lives_no_longer_than_its_tensor() -> None:
    with fw.dual_level():
        v = ad.ones(2)
        gone = weakref.ref(v)
        d = fw.make_dual(ad.ones(2), v)
        del v, d
        assert gone() is None


def test_a_cycle_through_a_tangent_is_collected() -> None:
    class Holder:
        pass

    with fw.dual_level():
        holder = Holder()
        v = ad.ones(2)
        v.holder = holder
        holder.dual = fw.make_dual(ad.ones(2), v)
        gone = weakref.ref(holder)
        del v, holder
        gc.collect()
        assert gone() is None


def test_levels_inside_levels_are_refused_unless_asked_for() -> None:
    with fw.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fw.enter_dual_level()
        with fw.dual_level(nested=True) as inner:
            assert inner == 1
            with pytest.raises(RuntimeError, match="not the last one"):
                fw.exit_dual_level(level=0)
        with pytest.raises(RuntimeError, match="no forward AD level 1"):
            fw.make_dual(ad.ones(1), ad.ones(1), level=1)
    with pytest.raises(RuntimeError, match="positive number"):
        fw.exit_dual_level()
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(ad.ones(1), ad.ones(1))


def test_two_levels_keep_their_perturbations_apart() -> None:
    # d/dx (x * d/dy (x + y)) = d/dx (x * 1) = 1: not 2, which confusing x's and y's would give.
    with fw.dual_level():
        x = fw.make_dual(ad.tensor(3.0), ad.tensor(1.0))
        with fw.dual_level(nested=True):
            y = fw.make_dual(ad.tensor(5.0), ad.tensor(1.0))
            inner = fw.unpack_dual(x + y).tangent
        assert tangent(x * inner) == 1.0


def test_three_levels_give_the_third_derivative() -> None:
    with fw.dual_level():
        a = fw.make_dual(ad.tensor(2.0), ad.tensor(1.0))
        with fw.dual_level(nested=True):
            b = fw.make_dual(a, ad.tensor(1.0))
            with fw.dual_level(nested=True):
                y = fw.make_dual(b, ad.tensor(1.0)) ** 4
                y = fw.unpack_dual(y).tangent
            y = fw.unpack_dual(y).tangent
        assert tangent(y) == 48.0


@pytest.mark.parametrize(
    ("primal", "tangent_", "kind", "message"),
    [
        (ad.ones(2), ad.ones(3), RuntimeError, r"different size.*\[2\].*\[3\]"),
        (ad.ones(2, dtype=ad.int64), ad.ones(2), ValueError, "primal to be floating point"),
        (ad.ones(2), ad.ones(2, dtype=ad.int64), ValueError, "tangent to be floating point"),
        (ad.ones(2), ad.ones(2, dtype=ad.complex64), ValueError, "tangent to be real"),
    ],
)
def test_what_makes_no_dual_is_refused(
    primal: ad.Tensor, tangent_: ad.Tensor, kind: type[Exception], message: str
) -> None:
    with fw.dual_level(), pytest.raises(kind, match=message):
        fw.make_dual(primal, tangent_)


def test_a_second_tangent_at_one_level_is_refused() -> None:
    with fw.dual_level():
        d = dual([1.0], [1.0])
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
            fw.make_dual(d, ad.ones(1))
        with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
            fw.make_dual(ad.ones(1), d)


def test_printing_shows_the_tangent() -> None:
    with fw.dual_level():
        assert repr(dual([1.0], [2.0])) == "tensor([1.], tangent=tensor([2.]))"
        assert "tangent" not in repr(ad.ones(1))


# --- dtypes and layouts -------------------------------------------------------------------------
def test_a_tangent_has_the_dtype_of_its_value() -> None:
    with fw.dual_level():
        x = fw.make_dual(ad.ones(2), ad.ones(2, dtype=ad.float64))
        assert fw.unpack_dual(x).tangent.dtype == ad.float32
        y = x.double() * ad.tensor([1.0, 2.0], dtype=ad.float64)
        assert fw.unpack_dual(y).tangent.dtype == ad.float64
        z = x * ad.tensor(1j)
        assert fw.unpack_dual(z).tangent.dtype == ad.complex64
        assert fw.unpack_dual(z.real).tangent.dtype == ad.float32


def test_integers_and_truth_values_have_no_tangent() -> None:
    with fw.dual_level():
        x = dual([1.5, -2.5], [1.0, 1.0])
        assert tangent(x > 0) is None and tangent(x.long()) is None and tangent(x.argmax()) is None


def test_a_broadcast_result_has_a_whole_tangent() -> None:
    with fw.dual_level():
        y = dual([1.0], [2.0]) + ad.zeros(3)
        assert tangent(y) == [2.0, 2.0, 2.0]
        y.mul_(ad.tensor([1.0, 2.0, 3.0]))
        assert tangent(y) == [2.0, 4.0, 6.0]


def test_a_tangent_that_lies_otherwise_in_memory_is_copied() -> None:
    v = ad.ones(2, 3).t()
    with fw.dual_level():
        d = fw.make_dual(ad.ones(3, 2), v)
        assert fw.unpack_dual(d).tangent is not v
        assert tangent(d.view(6)) == [1.0] * 6
        part = fw.make_dual(ad.arange(5.0)[1:4], ad.tensor([1.0, 2.0, 3.0]))
        assert tangent(part.as_strided((2,), (2,), 1)) == [1.0, 3.0]


# --- views and in-place changes -----------------------------------------------------------------
def test_base_and_views_agree_after_changes_of_either() -> None:
    with fw.dual_level():
        x = dual([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]).clone()
        view = x.view(2, 2)
        row = view[1]
        row.mul_(10)
        assert tangent(x) == [1.0, 1.0, 10.0, 10.0]
        x.add_(x.detach())
        x[0] = 7.0
        assert tangent(view) == [[0.0, 1.0], [10.0, 10.0]]


def test_a_view_older_than_the_tangent_of_its_base_sees_it() -> None:
    with fw.dual_level():
        base = ad.zeros(2, 2)
        old, column = base[0], base.t()[1]
        base.add_(dual([1.0, 2.0], [3.0, 4.0]))
        assert tangent(old) == [3.0, 4.0] and tangent(old * 2) == [6.0, 8.0]
        assert tangent(column) == [4.0, 4.0]


def test_a_change_of_a_view_reaches_the_base_and_zero_elsewhere() -> None:
    with fw.dual_level():
        base = ad.ones(2, 3)
        base.t()[1].copy_(dual([5.0, 6.0], [1.0, 2.0]))
        assert tangent(base) == [[0.0, 1.0, 0.0], [0.0, 2.0, 0.0]]
        z = ad.zeros(2, dtype=ad.complex64)
        z.real.copy_(dual([1.0, 2.0], [3.0, 4.0]))
        assert tangent(z) == [3 + 0j, 4 + 0j]


def test_changing_one_result_changes_no_other_tangent() -> None:
    with fw.dual_level():
        x = dual([1.0, 2.0], [1.0, 1.0])
        y = x + 1  # the derivative is the tangent of x itself
        y.mul_(3)
        assert tangent(x) == [1.0, 1.0] and tangent(y) == [3.0, 3.0]
        x.mul_(5)
        assert tangent(y) == [3.0, 3.0]


def test_an_in_place_change_to_a_constant_clears_the_tangent() -> None:
    with fw.dual_level():
        x = dual([1.0, 2.0], [1.0, 1.0])
        assert tangent(x.clone().zero_()) == [0.0, 0.0]
        assert tangent(x.clone().eq_(1.0)) == [0.0, 0.0]
        assert tangent(x.clone().uniform_()) == [0.0, 0.0]
        assert tangent(x.clone().unsqueeze_(0)) == [[1.0, 1.0]]


def test_a_refused_change_leaves_value_and_tangent() -> None:
    with fw.dual_level():
        v = ad.ones(2, requires_grad=True)
        x = fw.make_dual(ad.ones(2), v)
        with pytest.raises(RuntimeError, match="leaf"):
            x.mul_(2)
        assert x.tolist() == [1.0, 1.0] and v.tolist() == [1.0, 1.0]


def test_out_is_refused() -> None:
    with fw.dual_level():
        d = dual([1.0], [1.0])
        for call in (
            lambda: ad.add(d, 1.0, out=ad.zeros(1)),
            lambda: ad.add(ad.ones(1), 1.0, out=d),
        ):
            with pytest.raises(NotImplementedError, match="out= function"):
                call()


# --- with other modes ---------------------------------------------------------------------------
def test_detach_drops_the_tangent_and_no_grad_does_not() -> None:
    with fw.dual_level():
        x = fw.make_dual(ad.ones(2, requires_grad=True), ad.ones(2))
        assert tangent(x.detach()) is None and tangent(x.data) is None
        with ad.no_grad():
            assert tangent(x * 3) == [3.0, 3.0]
        y = x.clone()
        y.detach_()
        assert tangent(y) is None


def test_forward_mode_can_be_turned_off() -> None:
    with fw.dual_level():
        x = dual([1.0], [1.0])
        with fw.set_fwd_grad_enabled(False):
            assert not fw._is_fwd_grad_enabled() and fw.unpack_dual(x).tangent is None
            y = x * 2
        assert fw._is_fwd_grad_enabled()
        assert tangent(x * 2) == [2.0] and tangent(y) is None


def test_gradients_pass_through_packing() -> None:
    x, v = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    with fw.dual_level():
        primal, t = fw.unpack_dual(fw.make_dual(x, v))
        assert ad.autograd.grad(primal.sum(), (x, v), allow_unused=True)[1] is None
        gx, gv = ad.autograd.grad(t.sum(), (x, v), allow_unused=True)
        assert gx is None and gv.tolist() == [1.0, 1.0]


def test_a_gradient_computed_inside_a_level_is_dual() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(x, ad.tensor([1.0, 0.0]))
        (d**3).sum().backward()
        assert x.grad.tolist() == [3.0, 12.0] and tangent(x.grad) == [6.0, 0.0]
        (d**3).sum().backward()  # accumulates the tangent too
        assert tangent(x.grad) == [12.0, 0.0]
    assert x.grad.tolist() == [6.0, 24.0]


def test_gradients_that_meet_add_their_tangents() -> None:
    x = ad.tensor([2.0], requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(x, ad.tensor([1.0]))
        (g,) = ad.autograd.grad((d * 3 + d * d * d).sum(), x)  # 3 + 3 x^2
        assert tangent(g) == [12.0]


def test_the_history_of_in_place_code_carries_tangents() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    with fw.dual_level():
        y = fw.make_dual(x, ad.tensor([1.0, 1.0])).clone()
        y[0].mul_(y[1].clone())
        y.mul_(y.clone())
        (g,) = ad.autograd.grad(y[0], x)  # (x0 x1)^2: 2 x0 x1^2, 2 x0^2 x1
        assert g.tolist() == [8.0, 4.0]
        assert tangent(g) == [2 * 4 + 4 * 1 * 2, 4 * 1 * 2 + 2 * 1]


def test_a_saved_result_that_hooks_would_pack_without_its_tangent_is_refused():
    from adjoint.autograd.graph import saved_tensors_hooks

    x = ad.tensor([0.5, 1.0], requires_grad=True)
    with fw.dual_level(), saved_tensors_hooks(lambda t: t, lambda t: t):
        dual = fw.make_dual(x, ad.ones(2))
        with pytest.raises(RuntimeError, match="would lose the tangent"):
            ad.exp(dual)
        with pytest.raises(RuntimeError, match="would lose the tangent"):
            (dual * 1).exp_()
        assert fw.unpack_dual(ad.sin(dual)).tangent is not None  # saves its operand


def test_numpy_refuses_a_tensor_with_a_tangent() -> None:
    with fw.dual_level():
        x = fw.make_dual(ad.ones(2), ad.ones(2))
        for read in (lambda: x.numpy(), lambda: (x * 2).__array__()):
            with pytest.raises(RuntimeError, match=r"a tangent: NumPy would lose it.*ad\.external"):
                read()
        assert x.detach().numpy().tolist() == x.numpy(force=True).tolist() == [1, 1]
        assert ad.ones(2).numpy().tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="a tangent"):
        ad.func.jacfwd(lambda t: ad.tensor(t.numpy()).sum())(ad.ones(2))
