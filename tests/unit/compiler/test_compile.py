"""Compiled functions give what the functions give, to the last bit, and say when they cannot."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import adjoint as ad
from adjoint import _core
from adjoint.compiler import CompileError, CompileWarning

CALLS = 3


def same(a: Any, b: Any) -> None:
    """Equal in everything that a user could see."""
    assert type(a) is type(b)
    if isinstance(a, ad.Tensor):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.stride() == b.stride()
        assert a.requires_grad == b.requires_grad
        assert ad.equal(a.nan_to_num(), b.nan_to_num())
        assert ad.equal(a.isnan(), b.isnan())
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, tuple | list):
        assert len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            same(p, q)
    elif hasattr(a, "__dataclass_fields__"):
        same(vars(a), vars(b))
    else:
        assert a == b


def gradients_of(result: Any, inputs: list[Any]) -> Any:
    from adjoint import _tree

    leaves, _ = _tree.flatten(result)
    asked = [x for x in leaves if isinstance(x, ad.Tensor) and x.requires_grad]
    weights = [ad.arange(1, x.numel() + 1, dtype=x.dtype).view(x.shape) for x in asked]
    return ad.autograd.grad(asked, inputs, weights, allow_unused=True) if asked else ()


def check(f: Any, make: Any, programs: int = 1) -> Any:
    """Call a function and its compiled form on several inputs; compare results and gradients."""
    g = ad.compile(f, fullgraph=True)
    for seed in range(CALLS):
        ad.manual_seed(seed)
        args = make()
        inputs = [a for a in args if isinstance(a, ad.Tensor) and a.requires_grad]
        ad.manual_seed(seed + 100)
        expected = f(*args)
        ad.manual_seed(seed + 100)
        found = g(*args)
        same(found, expected)
        if inputs:
            for a, b in zip(
                gradients_of(found, inputs), gradients_of(expected, inputs), strict=True
            ):
                same(a, b)
    assert len(g.programs) == programs
    return g


def leaf(*shape: int, dtype: Any = ad.float32) -> ad.Tensor:
    return ad.randn(*shape, dtype=dtype).requires_grad_()


# --- what is computed ----------------------------------------------------------------------------


def test_elementwise_and_products() -> None:
    def f(x: Any, w: Any) -> Any:
        h = ad.tanh(x @ w) * 2
        return h.sum(dim=0), h

    check(f, lambda: (leaf(3, 4), leaf(4, 5)))


def test_structures_of_results_and_arguments() -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    @dataclass
    class State:
        x: Any
        v: Any

    def f(state: Any, options: Any) -> Any:
        v = state.v - options["k"] * state.x
        return State(state.x + v, v), Pair([v, 3], {"n": None, "text": "done"})

    g = ad.compile(f, fullgraph=True)
    for _ in range(CALLS):
        state, options = State(leaf(4), leaf(4)), {"k": ad.rand(1)}
        found, expected = g(state, options), f(state, options)
        same(found, expected)
        same(
            gradients_of(found, [state.x, state.v]),
            gradients_of(expected, [state.x, state.v]),
        )
    assert len(g.programs) == 1


def test_second_derivatives_through_a_compiled_function() -> None:
    def f(x: Any) -> Any:
        return (x.sin() * x.exp()).sum()

    g = ad.compile(f, fullgraph=True)
    for _ in range(CALLS):
        x = leaf(5)
        for function in (f, g):
            (d,) = ad.autograd.grad(function(x), x, create_graph=True)
            (dd,) = ad.autograd.grad((d * d).sum(), x)
            if function is f:
                expected = d, dd
        same(d.detach(), expected[0].detach())
        same(dd, expected[1])


@pytest.mark.parametrize("name", ["grad", "jacrev", "jacfwd", "hessian"])
def test_transforms_inside_and_outside(name: str) -> None:
    transform = getattr(ad.func, name)

    def f(x: Any) -> Any:
        value = x.sin() * x.flip(0)
        return value.sum() if name in ("grad", "hessian") else value

    check(transform(f), lambda: (ad.randn(4),))
    g = ad.compile(f, fullgraph=True)
    for _ in range(CALLS):
        x = ad.randn(4)
        same(transform(g)(x), transform(f)(x))


def test_vmap_inside_and_outside() -> None:
    def f(x: Any) -> Any:
        return (x * x.cumsum(0)).sum()

    check(ad.func.vmap(ad.func.grad(f)), lambda: (ad.randn(3, 4),))
    g = ad.compile(f)
    x = ad.randn(3, 4)
    same(ad.func.vmap(g)(x), ad.func.vmap(f)(x))


def test_random_numbers_are_those_of_the_eager_function() -> None:
    def f(x: Any) -> Any:
        ad.rand(3)  # nobody reads it, but the generator advances
        return ad.nn.functional.dropout(x, 0.5) + ad.randn_like(x)

    g = check(f, lambda: (leaf(64),))
    x = leaf(64)
    with pytest.raises(RuntimeError, match="draws random numbers"):
        ad.autograd.grad(g(x).sum(), x, create_graph=True)


def test_changes_in_place() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y[1:] += 1
        y[0] = 5
        y.mul_(y.detach().sum())
        z = ad.zeros(4)
        z.copy_(y)
        return z, y.view(2, 2)

    check(lambda x: f(x)[0], lambda: (leaf(4),))
    with ad.no_grad():
        check(f, lambda: (ad.randn(4),))


def test_arguments_that_are_changed() -> None:
    def f(total: Any, x: Any) -> Any:
        total += x
        return total * 1

    g = ad.compile(f, fullgraph=True)
    one, two = ad.zeros(3), ad.zeros(3)
    for _ in range(CALLS):
        x = ad.randn(3)
        same(g(one, x), f(two, x))
        same(one, two)
        assert one._version == two._version
    # Two arguments that are one tensor are another kind of call.
    same(g(one, one), f(two, two))
    same(one, two)


def test_constants_of_the_function_are_fresh_in_each_call() -> None:
    def f(x: Any) -> Any:
        total = ad.tensor([1.0, 2.0])
        total += x
        return total

    check(f, lambda: (ad.randn(2),))
    kept = []

    def h(x: Any) -> Any:
        return ad.tensor([1.0, 2.0]), x + 1

    g = ad.compile(h, fullgraph=True)
    for _ in range(CALLS):
        constant, _ = g(ad.randn(2))
        kept.append(constant)
        constant.zero_()
    assert len({t.data_ptr() for t in kept}) == CALLS


def test_results_that_are_arguments() -> None:
    w = ad.randn(3)

    def f(x: Any, y: Any) -> Any:
        return y, x + 1, w, y

    g = ad.compile(f, fullgraph=True)
    for _ in range(CALLS):
        x, y = leaf(3), leaf(3)
        a, b, c, d = g(x, y)
        assert a is y
        assert d is y
        assert c is w
        same(b, x + 1)


def test_results_share_nothing_between_calls() -> None:
    g = ad.compile(lambda x: (x * 2, x.exp()), fullgraph=True)
    x = ad.randn(1000)
    first = g(x)
    kept = [t.clone() for t in first]
    second = g(ad.randn(1000))
    for a, b, c in zip(first, kept, second, strict=True):
        same(a, b)
        assert a.data_ptr() != c.data_ptr()


# --- what surrounds the function -----------------------------------------------------------------


def test_parameters_and_other_tensors_are_read_when_they_change() -> None:
    w = leaf(3)

    def f(x: Any) -> Any:
        return (x * w).sum()

    g = ad.compile(f, fullgraph=True)
    for _ in range(CALLS):
        x = ad.randn(3)
        same(g(x), f(x))
        same(ad.autograd.grad(g(x), w), ad.autograd.grad(f(x), w))
        with ad.no_grad():
            w.add_(1)
    assert len(g.programs) == 1
    w.requires_grad_(False)
    assert not g(ad.randn(3)).requires_grad


def test_a_tensor_that_is_another_one_is_seen() -> None:
    box = {"w": ad.ones(3)}

    def f(x: Any) -> Any:
        return x * box["w"]

    g = ad.compile(f, fullgraph=True)
    x = ad.randn(3)
    same(g(x), f(x))
    box["w"] = ad.full((3,), 5.0)
    same(g(x), f(x))


def test_modules() -> None:
    net = ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.ReLU(), ad.nn.Dropout(0.5), ad.nn.Linear(8, 1))
    compiled = ad.compile(net, fullgraph=True)
    assert isinstance(compiled, ad.nn.Module)
    assert next(compiled.parameters()) is net[0].weight
    for training in (True, False):
        compiled.train(training)
        for k in range(CALLS):
            x = leaf(5, 4)
            ad.manual_seed(k)
            found = compiled(x)
            ad.manual_seed(k)
            expected = net(x)
            same(found, expected)
            params = [x, *net.parameters()]
            same(
                ad.autograd.grad(found.sum(), params),
                ad.autograd.grad(expected.sum(), params),
            )


def test_modules_compiled_in_place() -> None:
    net = ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.Tanh(), ad.nn.Linear(8, 1))
    plain, names = copy.deepcopy(net), list(net.state_dict())
    net.compile(fullgraph=True)
    net[0].compile()
    net.compile(fullgraph=True)  # once more changes nothing
    other = pickle.loads(pickle.dumps(copy.deepcopy(net)))
    seen = []
    net.register_forward_hook(lambda module, args, result: seen.append(result.shape))
    assert list(net.state_dict()) == list(other.state_dict()) == names
    for _ in range(CALLS):
        x = leaf(5, 4)
        same(net(x), plain(x))
        same(ad.autograd.grad(net(x).sum(), x), ad.autograd.grad(plain(x).sum(), x))
    assert len(seen) == 2 * CALLS
    assert len(net.forward.programs) == 1
    with ad.no_grad():
        other[0].weight.zero_()
    assert not ad.equal(net(x), other(x))  # a copy has parameters of its own
    assert isinstance(other.forward, ad.compiler.Compiled)


def test_batch_norm_keeps_its_running_statistics() -> None:
    ad.manual_seed(0)
    one, two = ad.nn.BatchNorm1d(3), ad.nn.BatchNorm1d(3)
    g = ad.compile(one)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for _ in range(CALLS):
            x = ad.randn(6, 3)
            same(g(x), two(x))
            same(one.running_mean, two.running_mean)
            same(one.num_batches_tracked, two.num_batches_tracked)


def test_a_training_step_with_its_backward() -> None:
    def train(step_of: Any) -> Any:
        ad.manual_seed(0)
        net = ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.Tanh(), ad.nn.Linear(8, 1))

        def step(x: Any, t: Any) -> Any:
            loss = ((net(x) - t) ** 2).mean()
            loss.backward()
            with ad.no_grad():
                for p in net.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
            return loss.detach()

        run = step_of(step)
        losses = []
        for _ in range(5):
            x = ad.randn(16, 4)
            losses.append(run(x, x.sum(1, keepdim=True)).item())
        return losses, [p.detach() for p in net.parameters()]

    same(train(lambda f: ad.compile(f, fullgraph=True)), train(lambda f: f))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_a_training_step_with_its_optimizer(name: str) -> None:
    def train(step_of: Any) -> Any:
        ad.manual_seed(0)
        net = ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.Tanh(), ad.nn.Linear(8, 1))
        extra = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(ad.optim, name)(net.parameters(), lr=0.01, **extra)
        schedule = ad.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

        def step(x: Any, t: Any) -> Any:
            optimizer.zero_grad()
            before = net[0].weight * 2
            loss = ((net(x) - t) ** 2).mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss.detach(), net[0].weight * 2 - before

        run = step_of(step)
        results = []
        for _ in range(6):
            x = ad.randn(16, 4)
            results.append(run(x, x.sum(1, keepdim=True)))
        return results, [p.detach() for p in net.parameters()], optimizer.param_groups[0]["lr"]

    same(train(lambda f: ad.compile(f, fullgraph=True)), train(lambda f: f))


def test_gradients_are_accumulated() -> None:
    w, v = leaf(3), leaf(3)
    with ad.no_grad():
        v.copy_(w)

    def step(p: Any, x: Any) -> None:
        (p * x).sum().backward()

    g = ad.compile(step, fullgraph=True)
    for _ in range(4):
        x = ad.randn(3)
        g(w, x)
        step(v, x)
        same(w.grad, v.grad)
    w.grad = v.grad = None
    g(w, x)
    step(v, x)
    same(w.grad, v.grad)


def test_python_values_are_part_of_the_kind_of_call() -> None:
    def f(x: Any, n: int, flag: bool = False) -> Any:
        for _ in range(n):
            x = x * 2 + 1
        return -x if flag else x

    g = ad.compile(f, fullgraph=True)
    x = ad.randn(3)
    for n in (1, 2, 3):
        for flag in (True, False):
            same(g(x, n, flag=flag), f(x, n, flag))
    same(g(x, True), f(x, True))
    assert len(g.programs) == 7


def test_shapes_dtypes_strides_and_modes() -> None:
    def f(x: Any) -> Any:
        return (x + x.mean(0)).t()

    g = ad.compile(f, fullgraph=True)
    for _ in range(2):
        for x in (
            ad.randn(3, 4),
            ad.randn(4, 3),
            ad.randn(3, 4, dtype=ad.float64),
            ad.randn(4, 3).t(),
            leaf(3, 4),
            ad.empty(0, 4),
        ):
            same(g(x), f(x))
            with ad.no_grad():
                same(g(x), f(x))
            with ad.inference_mode():
                same(g(x), f(x))
    assert len(g.programs) <= 12


def test_methods() -> None:
    class Model:
        def __init__(self, k: float) -> None:
            self.k = k

        @ad.compile
        def step(self, x: Any) -> Any:
            return x * self.k

    one, two = Model(2.0), Model(3.0)
    x = ad.randn(3)
    for _ in range(2):
        same(one.step(x), x * 2.0)
        same(two.step(x), x * 3.0)
    one.k = 5.0
    same(one.step(x), x * 5.0)


# --- what cannot be recorded ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda x: x * 2 if x.sum() > 0 else x, "value"),
        (lambda x: x * x.sum().item(), "value"),
        (lambda x: x[x > 0], "depends on data"),
        (lambda x: x * float(x[0]), "value"),
    ],
)
def test_decisions_by_values_run_eagerly(f: Any, reason: str) -> None:
    g = ad.compile(f)
    with pytest.warns(CompileWarning, match=reason) as caught:
        g(ad.tensor([1.0, -2.0, 3.0]))
    assert "test_compile.py" in str(caught[0].message)
    for _ in range(2):  # told once
        x = ad.randn(3)
        same(g(x), f(x))
    with pytest.raises(CompileError, match=reason):
        ad.compile(f, fullgraph=True)(ad.randn(3))


def test_an_error_in_the_function_is_the_users() -> None:
    def f(x: Any, k: int) -> Any:
        return x.view(k)

    g = ad.compile(f)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"shape|size"):
            g(ad.randn(4), 5)
    assert not _core._is_recording()
    assert not _core._is_unusual_mode()
    same(g(ad.ones(4), 4), ad.ones(4))


def test_too_many_recordings_end_in_eager_execution() -> None:
    from adjoint.compiler._call_kinds import LIMIT

    g = ad.compile(lambda x: x + 1)
    for n in range(LIMIT):
        g(ad.ones(n + 1))
    with pytest.warns(CompileWarning, match=f"recorded {LIMIT} times"):
        g(ad.ones(LIMIT + 1))
    same(g(ad.ones(LIMIT + 2)), ad.full((LIMIT + 2,), 2.0))


def test_controls() -> None:
    seen = []

    def f(x: Any) -> Any:
        return x + (1 if ad.compiler.is_compiling() else 2)

    assert ad.compile(f, disable=True) is f
    g = ad.compile(f)
    x = ad.zeros(1)
    assert g(x).item() == 1.0
    assert not ad.compiler.is_compiling()

    @ad.compiler.disable(reason="for a test")
    def outside(x: Any) -> Any:
        seen.append(1)
        return x

    h = ad.compile(lambda x: outside(x) + 1)
    with pytest.warns(CompileWarning, match="for a test"):
        h(x)
    h(x)
    assert len(seen) == 2
    ad.compiler.reset()
    assert not g.programs
    with pytest.raises(TypeError, match="function or a module"):
        ad.compile(3)


def test_threads_and_recursion() -> None:
    def f(x: Any, n: int) -> Any:
        return x if n == 0 else g(x, n - 1) * 2

    g = ad.compile(f)
    x = ad.randn(3)
    same(g(x, 4), x * 16)
    results: list[Any] = []
    h = ad.compile(lambda x: (x.sin() * x).sum())

    def work() -> None:
        for _ in range(20):
            y = ad.randn(50)
            results.append(ad.equal(h(y), (y.sin() * y).sum()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(results)
    assert len(results) == 80


def test_nothing_is_kept_alive() -> None:
    import gc
    import weakref

    def f(x: Any) -> Any:
        return (x * 2).sin()

    g = ad.compile(f)
    x = leaf(3)
    refs = [weakref.ref(x), weakref.ref(g(x))]
    g(x).sum().backward()
    del x
    gc.collect()
    assert [r() for r in refs] == [None, None]
    ref = weakref.ref(g)
    del g
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant: bool) -> None:
    from adjoint.utils.checkpoint import checkpoint

    def f(x: Any) -> Any:
        return checkpoint(lambda t: (t.sin() * t.exp()).cumsum(0), x, use_reentrant=reentrant) * x

    def step(x: Any) -> Any:
        f(x).sum().backward()
        grad = x.grad
        x.grad = None
        return grad

    if reentrant:
        check(step, lambda: (leaf(5),), programs=1)
    else:
        check(f, lambda: (leaf(5),))
        check(step, lambda: (leaf(5),))


def test_a_checkpoint_that_draws_runs_eagerly() -> None:
    from adjoint.utils.checkpoint import checkpoint

    def f(x: Any) -> Any:
        return checkpoint(
            lambda t: ad.nn.functional.dropout(t.sin(), 0.5), x, use_reentrant=False
        ).sum()

    g = ad.compile(f)
    with pytest.warns(CompileWarning, match="in a checkpoint"):
        g(leaf(4))


def test_gradients_of_results_with_one_element() -> None:
    check(lambda x: x * 2, lambda: (leaf(1),))
    g = ad.compile(lambda x: (x * 2).view(1, -1, 1), fullgraph=True)
    for _ in range(CALLS):
        x = leaf(1)
        g(x).sum().backward()  # of stride 0
        assert x.grad.item() == 2.0
