"""Changes in place: what is refused, what views and bases become, what backward finds."""

from __future__ import annotations

import gc
import weakref

import pytest

import adjoint as ad


def leaf(*shape, dtype=ad.float64):
    return ad.rand(*shape, dtype=dtype, requires_grad=True)


# --- refusals: before anything is changed ---------------------------------------------------------


def changes(x):
    """Ways to change ``x``."""

    def item():
        x[...] = 0

    def increase():
        y = x
        y += 1

    return [
        lambda: x.add_(1),
        lambda: x.zero_(),
        lambda: x.copy_(ad.zeros_like(x)),
        lambda: x.exp_(),
        lambda: x.fill_(2),
        lambda: x.mul_(ad.ones_like(x, requires_grad=True)),
        item,
        increase,
    ]


def refused(x, message):
    before, version = x.tolist(), x._version
    for change in changes(x):
        with pytest.raises(RuntimeError, match=message):
            change()
    assert x.tolist() == before
    assert x._version == version


def test_leaves_that_require_grad():
    x = leaf(3)
    refused(x, "a leaf Variable that requires grad is being used in an in-place operation")
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.unsqueeze_(0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.set_(ad.ones(2, dtype=ad.float64))
    with ad.no_grad():
        x.add_(1)


def test_views_of_leaves_that_require_grad():
    message = "a view of a leaf Variable that requires grad is being used in an in-place operation"
    for view in [leaf(3)[1:], leaf(2, 2).T, leaf(4).view(2, 2)[0]]:
        refused(view, message)
    a = ad.zeros(3)
    b = a[:]
    a.requires_grad_()  # the view was there first
    refused(b, message)


def test_expanded_tensors():
    refused(ad.ones(1).expand(3), "more than one element of the written-to tensor refers to")
    refused(leaf(1).clone().expand(2, 3), "more than one element of the written-to tensor refers")


@pytest.mark.parametrize(
    "split",
    [
        lambda t: t.unbind(0),
        lambda t: t.split(1),
        lambda t: t.chunk(3),
        lambda t: [t.unbind(0)[0].view_as(t[0])],
        lambda t: t.view_as(t).unbind(0),
        lambda t: [t.split(2)[0][1:]],
    ],
)
def test_one_of_several_views(split):
    x = leaf(3, 2).clone()
    refused(split(x)[0], "This view is the output of a function that returns multiple views")
    plain = ad.zeros(3, 2, dtype=ad.float64)
    first = split(plain)[0]
    first.add_(1)  # nothing is recorded
    with pytest.raises(RuntimeError, match="a function that returns multiple views"):
        first.mul_(ad.ones_like(first, requires_grad=True))


@pytest.mark.parametrize(
    "split",
    [
        lambda t: t.unsafe_split(1),
        lambda t: t.unsafe_split_with_sizes((1, 1, 1)),
        lambda t: t.unsafe_chunk(3),
        lambda t: ad.unsafe_split(t, 1),
    ],
)
def test_unsafe_splits_may_be_changed(split):
    x = leaf(3, 2)
    a, b, _c = split(x + x)
    a.mul_(b)
    a.sum().backward()
    assert ad.allclose(x.grad[0], 4 * x[1])
    assert ad.allclose(x.grad[1], 4 * x[0])


def test_integer_data_of_a_tensor_that_requires_grad():
    x = leaf(2)
    with pytest.raises(RuntimeError, match="must be floating point or complex dtype"):
        x.data = ad.tensor([1, 2])
    x.data = ad.ones(3, dtype=ad.float64)
    assert x.shape == (3,)


def test_detach_of_views_in_place():
    x = leaf(3).clone()
    with pytest.raises(RuntimeError, match=r"Can.t detach views in-place. Use detach"):
        x[1:].detach_()
    x.detach_()
    assert x.grad_fn is None and not x.requires_grad


# --- versions -------------------------------------------------------------------------------------


def test_base_and_views_share_a_version():
    x = ad.zeros(4)
    views = [x[1:], x.view(2, 2), x.view(2, 2).T[0], x.detach(), x.unbind()[0]]
    x.add_(1)
    views[2].add_(1)
    assert {v._version for v in views} == {x._version} == {2}
    assert not x.detach()._is_view()
    assert x.detach()._base is None
    assert views[2]._base is x


@pytest.mark.parametrize(
    ("save", "change"),
    [
        (lambda x: x * x, lambda x: x.add_(1)),  # an operand
        (lambda x: x.exp(), None),  # the output
        (lambda x: ad.softmax(x, 0), None),
        (lambda x: x[1:] * 2 * x[1:], lambda x: x[0].add_(1)),  # a view of it
        (lambda x: x.view(-1)[::2].sin(), lambda x: x.add_(1)),
        (lambda x: ad.einsum("i,i->", x, x), lambda x: x.zero_()),  # a list
        (lambda x: x * x, lambda x: x.detach().zero_()),
        (lambda x: x * x, lambda x: x.data.zero_()),
        (lambda x: x * x, lambda x: setattr(x, "data", ad.ones(3, dtype=ad.float64))),
        (lambda x: x.clone()[1:].mul_(x[1:]), lambda x: x.mul_(2)),  # inside CopySlices
        (lambda x: ad.nn.functional.layer_norm(x, (3,)), lambda x: x.mul_(2)),
    ],
)
def test_a_changed_value_is_found_with_both_lines(save, change):
    x = leaf(3).clone()
    y = save(x)
    with ad.no_grad():
        if change is None:
            y.add_(1)
        else:
            change(x)
    with pytest.raises(RuntimeError) as info:
        y.sum().backward()
    text = str(info.value)
    assert "one of the variables needed for gradient computation has been modified by an" in text
    assert text.count("test_inplace_rules.py:") == 2
    assert "saved here" in text and "changed here" in text and "fix:" in text


def test_changed_positions_are_found():
    for f in [lambda x: x.sort(), lambda x: x.topk(2), lambda x: x.kthvalue(2), lambda x: x.max(0)]:
        values, positions = f(leaf(3))
        positions.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            values.sum().backward()


# --- histories ------------------------------------------------------------------------------------


def test_names_of_the_nodes():
    x = leaf(2, 2)
    y = x.clone()
    clone = y.grad_fn
    v = y[0]
    z = leaf(2)
    v.mul_(z)
    assert y.grad_fn.name() == "CopySlices"
    assert [n and n.name() for n, _ in y.grad_fn.next_functions] == [
        "CloneBackward0",
        "torch::autograd::AccumulateGrad",
    ]
    assert y.grad_fn.next_functions[0][0] is clone
    assert v.grad_fn.name() == "AsStridedBackward0"
    assert v.grad_fn.next_functions[0][0] is y.grad_fn


def numerical(f, x, eps=1e-6):
    rows = []
    flat = x.detach().view(-1)
    for i in range(flat.numel()):
        up, down = flat.clone(), flat.clone()
        up[i] += eps
        down[i] -= eps
        high, low = f(up.view(x.shape)), f(down.view(x.shape))
        rows.append((high - low).detach() / (2 * eps))
    return ad.stack(rows).view(x.shape)


def example(x):
    y = x.clone()
    y[0].mul_(2)
    y[:, 1] = x[:, 0] * x[:, 1]
    y.add_(1)
    y.T[1].sin_()
    y.view(-1)[::2].mul_(y.view(-1)[0].clone())
    return (y.sin() * y).sum()


def test_a_chain_of_views_and_changes_twice_differentiated():
    x = leaf(3, 2)
    (g,) = ad.autograd.grad(example(x), x, create_graph=True)
    assert ad.allclose(g, numerical(example, x), atol=1e-6)

    def slope(x):
        x = x.detach().requires_grad_()
        return (ad.autograd.grad(example(x), x)[0] ** 2).sum()

    (h,) = ad.autograd.grad((g**2).sum(), x)
    assert ad.allclose(h, numerical(slope, x), atol=1e-4)


def complex_parts(x):
    c = ad.complex(x[0].clone(), x[1].clone())
    parts = ad.view_as_real(c)
    parts[..., 0].mul_(x[0])
    parts.T.add_(1)
    c.imag.mul_(3)
    c.mul_(c)
    return (ad.view_as_real(c) ** 2).sum() + parts.sum()


def pairs(x):
    y = x.clone()
    c = ad.view_as_complex(y[2:6].view(2, 2))
    c.mul_(1 + 2j)
    c[0].exp_()
    return (y**2).sum() + c.real.sum()


@pytest.mark.parametrize(("f", "shape"), [(complex_parts, (2, 3)), (pairs, (6,))])
def test_views_of_another_dtype(f, shape):
    x = leaf(*shape)
    (g,) = ad.autograd.grad(f(x), x, create_graph=True)
    assert ad.allclose(g, numerical(f, x), atol=1e-5)

    def slope(x):
        x = x.detach().requires_grad_()
        return (ad.autograd.grad(f(x), x)[0] ** 2).sum()

    (h,) = ad.autograd.grad((g**2).sum(), x)
    assert ad.allclose(h, numerical(slope, x), atol=1e-2, rtol=1e-4)


def test_a_tensor_multiplied_by_itself_in_place():
    x = leaf(3)
    y = x.clone()
    y.mul_(y)
    y[1:].mul_(y[1:].clone())
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    a, b, c = x.tolist()
    assert ad.allclose(g, ad.tensor([2 * a, 4 * b**3, 4 * c**3], dtype=ad.float64))
    (h,) = ad.autograd.grad(g.sum(), x)
    assert ad.allclose(h, ad.tensor([2.0, 12 * b**2, 12 * c**2], dtype=ad.float64))


def test_a_base_with_gaps_in_memory():
    w = leaf(2)
    y = ad.ones(6, dtype=ad.float64)[::2].detach()
    y[1:].mul_(w)
    y.mul_(2)
    y[:2].mul_(w)
    (y * ad.tensor([1.0, 10.0, 100.0])).sum().backward()
    a, b = w.tolist()
    # y = [2 * a, 2 * a * b, 2 * b]
    assert ad.allclose(w.grad, ad.tensor([2 + 20 * b, 20 * a + 200], dtype=ad.float64))


def test_a_base_given_other_memory_leaves_its_views_alone():
    x = leaf(4).clone()
    v = x[1:]
    with ad.no_grad():
        x.data = ad.ones(2, dtype=ad.float64)
    v.mul_(2)
    v.sum().backward()
    assert x.tolist() == [1.0, 1.0]


def test_views_ten_thousand_deep():
    x = leaf(3)
    y = x.clone()
    v = y
    for _ in range(10_000):
        v = v.view(3)
    v.mul_(2)
    assert v._base is y
    (v.sum() + y.sum()).backward()
    assert x.grad.tolist() == [4.0, 4.0, 4.0]


def test_ten_thousand_changes_of_views():
    x = leaf(3)
    y = x.clone()
    for i in range(10_000):
        y[i % 3].add_(x[0])
    y.sum().backward()
    assert x.grad.tolist() == [10_001.0, 1.0, 1.0]


def test_changing_views_makes_no_cycles():
    gc.collect()
    gc.disable()
    try:
        y = leaf(3).clone()
        v = y[1:]
        v.exp_()
        v.mul_(2)
        refs = [weakref.ref(t) for t in (y, v)] + [weakref.ref(y.grad_fn), weakref.ref(v.grad_fn)]
        del y, v
        assert [r() for r in refs] == [None] * 4
    finally:
        gc.enable()


def test_a_plain_base_comes_to_require_grad():
    b = leaf(4, 2)
    x = ad.ones(4, 4, dtype=ad.float64)
    before = x.select(0, 1)
    x.narrow(1, 2, 2).mul_(b)
    assert x.requires_grad and before.requires_grad
    before.sum().backward()
    assert b.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        "relu6",
        "leaky_relu",
        "elu",
        "celu",
        "selu",
        "mish",
        "hardsigmoid",
        "hardswish",
        "silu",
        "hardtanh",
        "dropout",
    ],
)
def test_activations_in_place_can_be_differentiated(name):
    f = getattr(ad.nn.functional, name)
    x = ad.linspace(-3, 3, 7, dtype=ad.float64).requires_grad_()
    ad.manual_seed(0)
    (want,) = ad.autograd.grad(f(x * 1).sum(), x)
    ad.manual_seed(0)
    y = x * 1
    z = f(y.view(7), inplace=True)
    assert z.data_ptr() == y.data_ptr()
    (got,) = ad.autograd.grad(y.sum(), x)
    assert ad.allclose(got, want)


# --- what the messages advise ---------------------------------------------------------------------


@pytest.mark.parametrize("use", [lambda w: w, lambda w: w.t()], ids=["itself", "view"])
def test_an_update_before_backward_is_told_to_come_after_it(use):
    w, x = leaf(2, 2), leaf(2, 2)
    loss = (x @ use(w)).sum()
    with ad.no_grad():
        w -= 0.1
    with pytest.raises(RuntimeError, match=r"call backward\(\) before the update"):
        loss.backward()
    h = w * 1
    loss = (h * h).sum()
    h.add_(1)
    with pytest.raises(RuntimeError, match="inplace") as error:
        loss.backward()
    assert "update" not in str(error.value)


def test_changing_what_an_iteration_gives_is_told_to_index():
    x = leaf(2, 2).clone()
    with pytest.raises(RuntimeError, match=r"x\[i\].mul_\(2\) instead of"):
        for row in x:
            row.mul_(2)
    for i in range(2):
        x[i].mul_(2)
