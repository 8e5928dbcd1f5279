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


@pytest.mark.parametrize("dtype", [ad.uint8, ad.int64, ad.float32, ad.bfloat16, ad.complex64])
def test_numbers_read_from_the_bytes_of_others_have_no_history(dtype):
    x, y = ad.zeros(4, dtype=ad.float64), ad.ones(4, dtype=ad.float64, requires_grad=True)
    raw = x.view(dtype)
    part = raw[1:]
    for change in (lambda: x.sub_(y), lambda: raw.fill_(1), lambda: x.mul_(2)):
        change()
        for view in (raw, part):
            assert not view.requires_grad and view.is_leaf and view.grad_fn is None
    assert not (raw + 1).requires_grad
    x.sum().backward()
    assert y.grad.tolist() == [-2.0] * 4


def test_a_leaf_made_of_a_tensor_that_has_a_view_of_its_bytes():
    x = ad.zeros(4)
    raw = x.view(ad.uint8)
    raw.fill_(0)
    x.requires_grad_()
    assert not raw.requires_grad and raw.is_leaf


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


def test_a_quotient_may_be_changed():
    a, b = leaf(3), leaf(3)
    y = a / b
    y += 1
    y.sum().backward()
    assert ad.allclose(a.grad, 1 / b.detach()) and ad.allclose(b.grad, (-a / b**2).detach())


@pytest.mark.parametrize("result", ["median", "nanmedian", "quantile", "kron", "combinations"])
def test_results_made_by_a_reshape_inside_are_not_views(result):
    x = leaf(5)
    y = {
        "median": lambda: x.median(),
        "nanmedian": lambda: x.nanmedian(),
        "quantile": lambda: x.quantile(0.5),
        "kron": lambda: ad.kron(x, x),
        "combinations": lambda: ad.combinations(x),
    }[result]()
    assert not y._is_view() and y._base is None
    y.add_(1)
    if "median" in result:  # whose gradient looks for equals of the result
        with pytest.raises(RuntimeError, match=f"gradient of `{result}` was changed in place"):
            y.backward()
    else:
        y.sum().backward()
    y.detach_()


# --- .data: the way past the check ----------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.data.fill_(5),
        lambda x: x.data[...].fill_(5),
        lambda x: x.data.detach().fill_(5),
        lambda x: x.data.view(-1).view(ad.int64).view(ad.float64).fill_(5),
        lambda x: x.data.__setitem__(slice(None), 5.0),
        lambda x: [part.fill_(5) for part in x.data.split(1)],
    ],
)
def test_changes_through_data_are_not_counted(change):
    x = leaf(3).clone()
    y = x * x
    version = x._version
    change(x)
    assert x._version == version and x.tolist() == [5.0] * 3
    y.sum().backward()  # as PyTorch: who writes there knows what the value is needed for


def test_a_function_may_write_past_the_check_and_return_its_argument():
    """One array that steps of a loop fill, each after the earlier places were read."""

    class Assign(ad.autograd.Function):
        @staticmethod
        def forward(ctx, scratch, value, index):
            ctx.index = index
            scratch.data[index] = value
            return scratch

        @staticmethod
        def backward(ctx, grad):
            return grad, grad[ctx.index], None

    x = leaf(2)
    k = Assign.apply(ad.empty(2, 3, dtype=ad.float64), x, (..., 0))
    for i in range(2):
        k = Assign.apply(k, (k[..., : i + 1] * x[:, None]).sum(-1), (..., i + 1))
    (grad,) = ad.autograd.grad(k.sum(), x)  # of x + x**2 + x**2 + x**3
    assert ad.allclose(grad, (1 + 4 * x + 3 * x**2).detach())


@pytest.mark.parametrize(
    "use",
    [
        lambda d, w: d * w,
        lambda d, w: ad.einsum("i,i->", d, w),
        lambda d, w: d[1:] * w[1:],
        lambda d, w: ad.nn.Parameter(d) * w,
        lambda d, w: ad.nn.functional.layer_norm(w, (3,), d),
    ],
)
@pytest.mark.parametrize("through", ["itself", "a view", "another"])
def test_what_data_gave_is_watched_once_a_history_needs_it(use, through):
    x, w = leaf(3), leaf(3)
    d = x.data
    y = use(d, w)
    {"itself": d, "a view": d[1:], "another": x.data}[through].add_(1)
    with pytest.raises(RuntimeError, match="was changed in place"):
        y.sum().backward()


def test_what_data_gave_may_be_changed_with_a_gradient():
    x, w = leaf(3), leaf(3)
    d = x.data
    row = d[1:]
    d.mul_(w)  # seen by the views that were made before
    assert row.requires_grad
    row.sum().backward()
    assert w.grad[0] == 0 and (w.grad[1:] != 0).all() and not x.grad


def test_compiled_functions_count_what_eager_ones_do():
    def scale(a):
        a.data.mul_(2)
        return a + 1

    for f in (scale, ad.compile(scale)):
        for _ in range(3):
            x = ad.ones(3)
            y = f(x)
            assert (x._version, y.tolist()) == (0, [3.0] * 3)

    def halve(a):
        a[1:].mul_(0.5)
        return a.data

    compiled = ad.compile(halve)
    for given, count in ((lambda x: x.data, 0), (lambda x: x, 1), (lambda x: x.data, 0)) * 2:
        for f in (halve, compiled):
            x = ad.ones(3)
            f(given(x)).add_(1)
            assert (x._version, x.tolist()) == (count, [2.0, 1.5, 1.5])


def test_giving_a_tensor_other_memory_is_noticed_though_not_counted():
    x = leaf(3).clone()
    x.add_(1)
    part, y = x[1:], x * x
    x.data = ad.ones(4, dtype=ad.float64).mul_(2)
    assert (x._version, part._version) == (1, 1)
    x.detach().add_(1)
    part.detach().add_(1)  # of the old memory, with the count of its base
    with ad.no_grad():
        part.add_(1)
    assert (x._version, part._version) == (3, 3)
    with pytest.raises(RuntimeError, match="was changed in place"):
        y.sum().backward()
    z = leaf(3).clone()
    y = z * z
    z.data = z.data.clone()  # equal, and counted as often
    assert z._version == 0
    with pytest.raises(RuntimeError, match="given other memory"):
        y.sum().backward()
