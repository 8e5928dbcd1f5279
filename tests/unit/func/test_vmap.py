"""vmap: axes in and out, structures, in-place code, randomness, chunks, messages."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import subprocess
import sys
import warnings
import weakref
from collections import OrderedDict
from typing import Any

import pytest

import adjoint as ad
from adjoint.func import grad, jacrev, jvp, vmap


def test_axes_in_and_out() -> None:
    x, y = ad.randn(2, 3), ad.randn(3)
    assert ad.equal(vmap(ad.add, in_dims=(1, 0))(x, y), (x + y).t())
    assert ad.equal(vmap(ad.add, in_dims=(-1, 0), out_dims=1)(x, y), x + y)
    assert ad.equal(vmap(ad.add, in_dims=(None, 0))(x, y), x + y.view(3, 1, 1))
    a, b = vmap(lambda t: (t, t.sum()), out_dims=(1, 0))(x)
    assert ad.equal(a, x.t()) and ad.equal(b, x.sum(1))


def test_structures_and_keywords() -> None:
    tree = {"a": ad.randn(3, 2), "b": [ad.randn(2, 3)]}
    got = vmap(lambda t, k: {"s": t["a"] * t["b"][0] * k}, in_dims=({"a": 0, "b": [1]}, None))(
        tree, 2.0
    )
    assert ad.equal(got["s"], tree["a"] * tree["b"][0].t() * 2.0)


def test_keywords_are_the_same_for_all_samples() -> None:
    x, w = ad.randn(3, 2), ad.randn(3, 2)
    assert ad.equal(vmap(lambda x, *, w: x * w)(x, w=w), x.unsqueeze(1) * w)
    assert ad.equal(vmap(lambda x, *, w: x * w, chunk_size=2)(x, w=w), x.unsqueeze(1) * w)


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("keys", [(10, 2), ("b", "a"), ("a", "b")])
def test_dims_go_by_key_in_dicts_of_any_order(kind: Any, keys: tuple[Any, Any]) -> None:
    first, second = keys
    x = ad.randn(3, 2)
    tree = kind([(first, x), (second, ad.randn(5))])
    got = vmap(lambda t: t[first].sum() * t[second], in_dims=({second: None, first: 1},))(tree)
    assert ad.allclose(got, x.sum(0).unsqueeze(1) * tree[second])
    out = vmap(lambda t: kind([(first, t), (second, t)]), out_dims={second: 0, first: 1})(x)
    assert out[first].shape == (2, 3) and out[second].shape == (3, 2)


def test_deep_copies_hold_every_sample() -> None:
    x = ad.arange(6.0).reshape(3, 2)
    assert ad.equal(vmap(lambda t: copy.deepcopy(t) * 2)(x), x * 2)


def test_inside_a_sample_has_its_own_shape() -> None:
    seen = []

    def f(x: ad.Tensor) -> ad.Tensor:
        seen.append((x.shape, x.ndim, x.numel(), len(x)))
        return x.reshape(-1).flip(0).view(3, 2).t().unsqueeze(0)

    x = ad.randn(4, 2, 3)
    want = ad.stack([r.reshape(-1).flip(0).view(3, 2).t().unsqueeze(0) for r in x])
    assert ad.equal(vmap(f)(x), want) and seen == [((2, 3), 2, 6, 2)]


def test_maps_inside_maps() -> None:
    x, y = ad.randn(2), ad.randn(3)
    outer = vmap(vmap(ad.mul, in_dims=(None, 0)), in_dims=(0, None))(x, y)
    assert ad.equal(outer, x[:, None] * y)


def test_changes_in_place() -> None:
    def f(x: ad.Tensor, i: ad.Tensor) -> ad.Tensor:
        y = x.clone()
        y[0] = 7
        y[1:].mul_(2)
        y += i
        y.t()[0].zero_()
        return y

    x, i = ad.randn(4, 3, 2), ad.randn(4)
    want = ad.stack([f(r, k) for r, k in zip(x, i, strict=True)])
    assert ad.equal(vmap(f)(x, i), want)
    with pytest.raises(RuntimeError, match=r"vmap: add_.*not possible"):
        vmap(lambda r: ad.zeros(2).add_(r))(ad.randn(3, 2))


def test_gradients_through_changes_in_place_of_views() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        y = (x * x).t()
        y[1:, 1:] *= 2
        y[:2, :2].diagonal().sin_()
        view = y[1:]
        view.cos_().mul_(view)
        return (view * ad.arange(6.0).view(2, 3)).sum()

    x = ad.randn(4, 3, 3)
    assert ad.allclose(vmap(grad(f))(x), ad.stack([grad(f)(r) for r in x]))


def test_empty_samples_are_passed_over_in_cat() -> None:
    x, none = ad.randn(3, 2, 2), ad.ones(3, 0)
    assert ad.equal(vmap(lambda r, e: ad.cat([e, r, r], 1))(x, none), ad.cat([x, x], 2))
    assert ad.equal(vmap(lambda r: ad.cat([r, none[0]], 0))(x), x)


def test_new_memory_with_strides_is_one_sample_after_another() -> None:
    made = vmap(vmap(lambda r: r.new_empty_strided([2, 3], [1, 4])))(ad.ones(4, 5))
    assert made.shape == (4, 5, 2, 3) and made.stride() == (50, 10, 1, 4)
    assert vmap(lambda r: r.new_empty_strided([0, 2], [2, 1]))(ad.ones(3)).shape == (3, 0, 2)


def test_one_hot_of_mapped_classes() -> None:
    i = ad.randint(0, 5, (3, 2))
    one_hot = ad.nn.functional.one_hot
    assert ad.equal(vmap(lambda r: one_hot(r, 5))(i), one_hot(i, 5))
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(one_hot)(i)


def test_indexing_by_mapped_and_shared_indices() -> None:
    x = ad.randn(4, 5, 6)
    i, j = ad.randint(0, 5, (4, 3)), ad.randint(0, 6, (3,))
    pairs = list(zip(x, i, strict=True))
    assert ad.equal(vmap(lambda r, k: r[k])(x, i), ad.stack([r[k] for r, k in pairs]))
    assert ad.equal(vmap(lambda r: r[:, j])(x), x[:, :, j])
    assert ad.equal(vmap(lambda r, k: r[k, j])(x, i), ad.stack([r[k, j] for r, k in pairs]))
    assert ad.equal(vmap(lambda r, k: r[:, k])(x, i), ad.stack([r[:, k] for r, k in pairs]))
    assert ad.equal(vmap(lambda k: x[0][k])(i), x[0][i])


def test_a_sample_without_axes_gives_way_in_promotion() -> None:
    wide = ad.ones(3, dtype=ad.float64)
    assert vmap(lambda s: s * ad.ones(2))(wide).dtype == ad.float32
    assert vmap(lambda s: ad.ones(2, dtype=ad.int64) + s)(ad.ones(3)).dtype == ad.float32


def test_randomness() -> None:
    x = ad.ones(4, 100)
    noise = lambda r: r + ad.rand(100)  # noqa: E731
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(noise)(x)
    same = vmap(noise, randomness="same")(x)
    different = vmap(noise, randomness="different")(x)
    assert ad.equal(same[0], same[1]) and not ad.equal(different[0], different[1])
    drop = lambda r: ad.nn.functional.dropout(r)  # noqa: E731
    assert ad.equal(*vmap(drop, randomness="same")(x)[:2])
    assert not ad.equal(*vmap(drop, randomness="different")(x)[:2])
    with pytest.raises(RuntimeError, match="'error', 'different', or 'same'"):
        vmap(noise, randomness="other")


def test_chunks_give_the_whole() -> None:
    x = ad.randn(7, 3)
    f = lambda r: (r.sin().sum(), r * 2)  # noqa: E731
    want = vmap(f, out_dims=(0, 1))(x)
    for size in (1, 2, 7, 100):
        got = vmap(f, out_dims=(0, 1), chunk_size=size)(x)
        assert all(ad.equal(a, b) for a, b in zip(got, want, strict=True))
    noise = vmap(lambda r: r + ad.rand(3), randomness="same", chunk_size=2)(ad.zeros(5, 3))
    assert ad.equal(noise[0], noise[4])
    with pytest.raises(ValueError, match="chunk_size"):
        vmap(f, chunk_size=0)


def assign_data(x: ad.Tensor) -> ad.Tensor:
    x.data = ad.ones(())
    return x


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: vmap(ad.sin)(), ValueError, "got no inputs"),
        (lambda: vmap(ad.sin)(2.0), ValueError, "cannot vmap over non-Tensor"),
        (lambda: vmap(ad.sin)(ad.ones(())), ValueError, "dimensionality 0"),
        (lambda: vmap(ad.add)(ad.ones(2), ad.ones(3)), ValueError, r"got sizes \[2, 3\]"),
        (lambda: vmap(ad.add, (0, 0, 0))(ad.ones(2), ad.ones(2)), ValueError, "not compatible"),
        (lambda: vmap(ad.sin, None)(ad.ones(2)), ValueError, "expected `in_dims` to be int"),
        (lambda: vmap(ad.sin, (None,))(ad.ones(2)), ValueError, "at least one Tensor"),
        (lambda: vmap(ad.add, [0, 0])(ad.ones(2), ad.ones(2)), ValueError, "to be int or"),
        (
            lambda: vmap(ad.dot)(ad.ones(2, 2, 2), ad.ones(2, 2)),
            RuntimeError,
            "Shape mismatch: dot",
        ),
        (lambda: vmap(ad.mv)(ad.ones(2, 2), ad.ones(2, 2)), RuntimeError, "Shape mismatch: mv"),
        (lambda: vmap(lambda x: 3)(ad.ones(2)), ValueError, "must only return Tensors"),
        (lambda: vmap(ad.sin, out_dims=3)(ad.ones(2)), IndexError, "out of range"),
        (lambda: vmap(ad.sin, out_dims=None)(ad.ones(2)), ValueError, "can not return"),
        (lambda: vmap(lambda x: x.item())(ad.ones(2)), RuntimeError, r"\.item\(\)"),
        (lambda: vmap(lambda x: x if x > 0 else -x)(ad.ones(2)), RuntimeError, "control flow"),
        (lambda: vmap(lambda x: ad.tensor(x.numpy()))(ad.ones(2)), RuntimeError, "vmap"),
        (lambda: vmap(lambda x: x.nonzero())(ad.eye(2)), RuntimeError, "vmap over aten::nonzero"),
        (lambda: vmap(lambda x: ad.where(x))(ad.eye(2)), RuntimeError, "vmap over aten::where"),
        (lambda: vmap(ad.unique)(ad.eye(2)), RuntimeError, "vmap over aten::unique"),
        (lambda: vmap(ad.equal)(ad.eye(2), ad.eye(2)), RuntimeError, "Batching rule not impl"),
        (
            lambda: vmap(lambda x, y: ad.abs(x, out=y))(ad.ones(2), ad.ones(2)),
            RuntimeError,
            "aten::abs.out; the fallback path doesn't work on out=",
        ),
        (lambda: vmap(lambda x: x.data)(ad.ones(2)), RuntimeError, "accessing `data` under vmap"),
        (lambda: vmap(assign_data)(ad.ones(2)), RuntimeError, "with `.data` under vmap"),
        (lambda: vmap(ad.mm)(ad.ones(2, 2), ad.ones(2, 2)), RuntimeError, "Shape mismatch: mm"),
        (lambda: vmap(ad.view_as_complex)(ad.ones(2)), RuntimeError, "one or more dimensions"),
        (lambda: vmap(ad.sin, out_dims="a")(ad.ones(2)), ValueError, "must be an int, None or a"),
        (lambda: vmap(ad.sin, ((0, 0),))([ad.ones(2)] * 2), ValueError, "not compatible"),
        (
            lambda: vmap(lambda x: x.as_strided([1, 1], [1]))(ad.ones(2, 3)),
            RuntimeError,
            "size and stride must have the same length",
        ),
        *(
            (
                lambda size=size, offset=offset: vmap(lambda x: x.as_strided([size], [1], offset))(
                    ad.ones(2, 3)[1:]
                ),
                RuntimeError,
                "not supported inside of vmap",
            )
            for size, offset in ((4, 3), (3, 2), (3, 4))
        ),
    ],
)
def test_messages(call: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
    assert ad.equal(vmap(ad.neg)(ad.ones(2)), -ad.ones(2))  # the level was closed


LOOP = """
import warnings, adjoint as ad
x = ad.randn(3, 4, dtype=ad.float64)
f = lambda r: ad.block_diag(r[:2].view(1, 2), r[2:].view(2, 1))
for times in (1, 0):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = ad.func.vmap(f)(x)
    assert len(said) == times and all("no batch rule for `block_diag`" in str(w) for w in said)
    assert ad.equal(got, ad.stack([f(r) for r in x]))
"""


def test_an_op_without_a_rule_is_looped_over_and_says_so_once() -> None:
    subprocess.run([sys.executable, "-c", LOOP], check=True)  # what was said is known per process


def test_gradients_by_what_all_samples_share() -> None:
    w = ad.tensor(2.0, requires_grad=True)
    x = ad.tensor([1.0, 2.0, 3.0])
    per_sample = vmap(lambda r: ad.autograd.grad(w * r**2, w)[0])(x)
    assert per_sample.tolist() == [1.0, 4.0, 9.0]
    vmap(lambda r: w * r**2)(x).sum().backward()
    assert w.grad == 14


def test_requires_grad_and_detach_inside() -> None:
    x = ad.ones(3, 2, requires_grad=True)

    def f(r: ad.Tensor) -> ad.Tensor:
        assert r.requires_grad and not r.detach().requires_grad
        return (r * r.detach()).sum()

    vmap(f)(x).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0]] * 3


def test_tangents_of_samples() -> None:
    x = ad.randn(3, 2)
    f = lambda r, v: jvp(lambda s: s * s[0], (r,), (v,))[1]  # noqa: E731
    want = ad.stack([f(r, ad.ones(2)) for r in x])
    assert ad.allclose(vmap(f, in_dims=(0, None))(x, ad.ones(2)), want)
    shared = ad.randn(2)
    assert ad.allclose(vmap(f, in_dims=(None, 0))(shared, x), ad.stack([f(shared, v) for v in x]))


def test_nothing_is_kept_alive() -> None:
    x = ad.randn(3, 2)
    gone = weakref.ref(x)
    vmap(grad(lambda r: (r**2).sum()))(x)
    jacrev(ad.sin)(x)
    del x
    gc.collect()
    assert gone() is None


def test_printing_shows_the_batch() -> None:
    seen = []
    vmap(lambda r: seen.append(repr(r)) or r)(ad.ones(2))
    assert "BatchedTensor" in seen[0] and "tensor([1., 1.])" in seen[0]


# --- custom functions -----------------------------------------------------------------------------
class Square(ad.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: ad.Tensor) -> ad.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: object, inputs: tuple, output: object) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: object, g: ad.Tensor) -> ad.Tensor:
        return 3 * ctx.saved_tensors[0] * g  # not the derivative, so that its use shows


class Named(Square):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: object, in_dims: tuple, x: ad.Tensor) -> tuple[ad.Tensor, int]:
        assert info.batch_size == 3 and info.randomness == "same" and in_dims == (0,)
        return Named.apply(x), 0


class Unmapped(Square):
    generate_vmap_rule = False


@pytest.mark.parametrize("function", [Square, Named])
def test_custom_functions_keep_their_backward_under_vmap(function: type) -> None:
    x = ad.tensor([1.0, 2.0, 3.0])
    got = vmap(grad(lambda r: function.apply(r)), randomness="same")(x)
    assert got.tolist() == [3.0, 6.0, 9.0]
    assert grad(lambda x: vmap(function.apply, randomness="same")(x).sum())(x).tolist() == [3, 6, 9]


class Cube(ad.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: ad.Tensor) -> ad.Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: object, inputs: tuple, output: object) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: object, g: ad.Tensor) -> ad.Tensor:
        return 3 * ctx.saved_tensors[0] ** 2 * g

    @staticmethod
    def jvp(ctx: object, t: ad.Tensor) -> ad.Tensor:
        return Slope.apply(ctx.saved_tensors[0], t)


class Slope(ad.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
        return 3 * x**2 * t

    @staticmethod
    def setup_context(ctx: object, inputs: tuple, output: object) -> None:
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx: object, dx: ad.Tensor, dt: ad.Tensor) -> ad.Tensor:
        x, t = ctx.saved_tensors
        return (0 if dx is None else 6 * x * t * dx) + (0 if dt is None else 3 * x**2 * dt)


@pytest.mark.parametrize("function", [Cube.apply, lambda x: x**3])
def test_hessians_of_samples_are_the_samples_own(function: object) -> None:
    x = ad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    wanted = ad.diag_embed(6 * x)
    assert ad.equal(vmap(ad.func.hessian(lambda v: function(v).sum()))(x), wanted)
    shifted = vmap(lambda b: ad.func.hessian(lambda v: function(v + b).sum())(ad.zeros(2)))(x)
    assert ad.equal(shifted, wanted)


def test_two_tangents_of_one_batch_meet_in_a_custom_function() -> None:
    def bend(x: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
        return ad.func.jvp(lambda y: ad.func.jvp(Cube.apply, (y,), (v,))[1], (x,), (v,))[1]

    x = ad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    got = vmap(lambda r: vmap(lambda v: bend(r, v))(ad.eye(2)))(x)
    assert got.tolist() == ad.diag_embed(6 * x).tolist()


def test_custom_functions_without_a_rule_say_so() -> None:
    with pytest.raises(RuntimeError, match="Unmapped, but it does not have vmap support"):
        vmap(Unmapped.apply)(ad.ones(3))


def test_many_gradients_in_one_pass() -> None:
    x = ad.randn(3, requires_grad=True)
    passes = []
    y = x**2
    y.register_hook(lambda g: passes.append(1))
    (rows,) = ad.autograd.grad(y, x, ad.eye(3), is_grads_batched=True)
    assert ad.allclose(rows, ad.diag(2 * x.detach())) and len(passes) == 1


def test_batched_gradients_add_to_plain_ones() -> None:
    x = ad.randn(3, requires_grad=True)
    plain = x * 2
    rows = vmap(lambda v: ad.autograd.grad((plain, x**2), x, (ad.ones(3), v), retain_graph=True)[0])
    assert ad.allclose(rows(ad.eye(3)), 2 + ad.diag(2 * x.detach()))


# --- integers that differ between samples -------------------------------------------------------
def test_positions_that_differ_between_samples() -> None:
    x, i = ad.arange(12.0).reshape(3, 2, 2), ad.tensor([0, 1, -1])
    rows = list(zip(x, i.tolist(), strict=True))
    assert ad.equal(vmap(lambda x, i: x[i])(x, i), ad.stack([r[k] for r, k in rows]))
    assert ad.equal(vmap(lambda x, i: x[:, i])(x, i), ad.stack([r[:, k] for r, k in rows]))
    assert ad.equal(vmap(lambda x, i: x[i, i])(x, i), ad.stack([r[k, k] for r, k in rows]))
    assert ad.equal(
        vmap(lambda x, i: x[i, None, [1, 0]])(x, i), ad.stack([r[k, None, [1, 0]] for r, k in rows])
    )
    one_hot = vmap(grad(lambda x, i: x[i].sum()))(x, i)
    assert ad.equal(one_hot.sum(-1), 2 * ad.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))


def test_writing_to_positions_that_differ_between_samples() -> None:
    x, i = ad.arange(12.0).reshape(3, 2, 2), ad.tensor([0, 1, -1])

    def write(x: Any, i: Any) -> Any:
        y = x.clone()
        y[:, i] = 7.0
        y[i] += 1.0
        return y

    assert ad.equal(vmap(write)(x, i), ad.stack([write(r, k) for r, k in zip(x, i, strict=True)]))


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x.select(0, i),
        lambda x, i: x.narrow(0, i, 1),
        lambda x, i: x.roll(i),
        lambda x, i: x.sum(i),
        lambda x, i: x.topk(i)[0],
        lambda x, i: x.expand(i, 2, 2),
        lambda x, i: ad.tensor([i, i]),
        lambda x, i: x[[[i, i]]],
        lambda x, i: ad.from_dlpack(x),
        lambda x, i: x if 1.0 in x else -x,
        lambda x, i: x[i > 0],
    ],
)
def test_numbers_that_differ_between_samples_are_not_read(read: Any) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        vmap(read)(ad.arange(12.0).reshape(3, 2, 2), ad.tensor([0, 1, 0]))


def test_samples_are_not_resized() -> None:
    with pytest.raises(RuntimeError, match=r"resize_\(\) is not supported inside of vmap.*reshape"):
        ad.func.vmap(lambda x: x.clone().resize_(7))(ad.ones(2, 3))


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.data_ptr(),
        lambda x: x.untyped_storage(),
        lambda x: x.storage(),
        lambda x: pickle.dumps(x),
        lambda x: ad.save(x, io.BytesIO()),
        lambda x: x.numpy(),
    ],
)
def test_a_sample_has_no_memory_to_read(read: Any) -> None:
    with pytest.raises(RuntimeError, match=r"vmap: It looks like you're reading the memory of"):
        vmap(lambda x: (read(x), x)[1])(ad.ones(2, 3))


@pytest.mark.parametrize("name", ["nonzero", "argwhere", "unique", "unique_consecutive"])
def test_what_differs_in_shape_is_refused_by_name(name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"dynamic shape.*aten::{name}.*fix: "):
        vmap(getattr(ad, name))(ad.ones(2, 3))


def test_one_hot_without_a_number_of_classes_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"vmap: one_hot.*fix: give num_classes"):
        vmap(ad.nn.functional.one_hot)(ad.arange(3))
