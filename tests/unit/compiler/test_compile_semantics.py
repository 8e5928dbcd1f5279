"""Programs as people write them, run eagerly and compiled: everything that can be seen is the same.

Each program is a function of `compile`: once it is `ad.compile`, once it leaves functions as they
are. What it returns is compared to the last bit, as is the state of the random numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.compiler import CompileWarning

Compile = Callable[..., Any]
CALLS = 4


def randn(*shape: int, seed: int = 0, dtype: Any = None) -> Any:
    generator = ad.Generator()
    generator.manual_seed(seed)
    return ad.randn(*shape, generator=generator, dtype=dtype)


def seen(thing: Any) -> Any:
    """What a person sees of a value, in a form that compares to the last bit."""
    if isinstance(thing, ad.Tensor):
        value = thing.detach().contiguous()
        data = value.view(ad.int16) if value.dtype == ad.bfloat16 else value
        return (
            data.numpy().tobytes(),
            thing.dtype,
            thing.shape,
            thing.stride(),
            thing.requires_grad,
            thing.is_leaf,
            seen(thing.grad) if thing.is_leaf else None,
        )
    if isinstance(thing, dict):
        return [(key, seen(value)) for key, value in thing.items()]
    if isinstance(thing, list | tuple):
        return type(thing), [seen(one) for one in thing]
    return type(thing), thing


def same(program: Callable[[Compile], Any], programs: int | None = 1) -> None:
    """Run a program both ways; with so many recordings, or None: eagerly, and it says so."""
    made: list[Any] = []

    def compiled(function: Any) -> Any:
        made.append(ad.compile(function, fullgraph=programs is not None))
        return made[-1]

    ad.manual_seed(1)
    expected = seen([program(lambda function: function), ad.get_rng_state()])
    ad.manual_seed(1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CompileWarning)
        found = seen([program(compiled), ad.get_rng_state()])
    assert found == expected
    assert bool(told) == (programs is None)
    if programs is not None:
        assert sum(len(getattr(one, "_compiled", one).programs) for one in made) == programs


def state(*modules: Any) -> Any:
    return [
        [(name, t.detach().clone(), t.grad if t.grad is None else t.grad.clone())]
        for module in modules
        for name, t in [*module.named_parameters(), *module.named_buffers()]
    ]


# --- gradients that do not arrive


def test_dropout_with_a_result_that_is_not_differentiated() -> None:
    def program(compile: Compile) -> Any:
        net = nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5), nn.Linear(5, 3))
        f = compile(lambda x: (net(x), net(x).square().sum(), x.sin()))
        out = []
        for k in range(CALLS):
            x = randn(2, 3, seed=k).requires_grad_()
            logits, loss, sine = f(x)
            (loss if k % 2 else loss + sine.sum()).backward()
            out += [logits, loss, x, state(net)]
        return out

    same(program)


def test_running_statistics_move_once() -> None:
    def program(compile: Compile) -> Any:
        norm = nn.BatchNorm1d(3)
        f = compile(lambda x: (norm(x).square().sum(), x * 2))
        out = []
        for k in range(CALLS):
            x = randn(6, 3, seed=k).requires_grad_()
            f(x)[0].backward()
            out += [x, state(norm)]
        return out

    same(program)


def test_what_would_be_changed_twice_has_no_second_derivative() -> None:
    norm = nn.BatchNorm1d(3)
    f = ad.compile(lambda x: norm(x).square().sum())
    f(randn(6, 3).requires_grad_()).backward()
    x = randn(6, 3, seed=1).requires_grad_()
    y, before = f(x), state(norm)
    with pytest.raises(RuntimeError, match="changes tensors from outside"):
        ad.autograd.grad(y, x, create_graph=True)
    assert seen(state(norm)) == seen(before)


def test_many_results_of_what_cannot_run_twice() -> None:
    def program(compile: Compile) -> Any:
        f = compile(lambda x: [nn.functional.dropout(x * k) for k in range(1, 6)])
        out = []
        for k in range(CALLS):
            x = randn(4, seed=k).requires_grad_()
            y = f(x)
            (y[0] + y[k]).sum().backward()
            out += [*y, x]
        return out

    same(program, programs=None)


# --- structures


def test_the_order_of_keys_is_seen() -> None:
    def program(compile: Compile) -> Any:
        f = compile(
            lambda d, **more: [*d.values(), *more.values(), {k: v * 2 for k, v in d.items()}]
        )
        a, b = randn(3), randn(3, seed=1)
        out = []
        for _ in range(2):
            out += [f({"a": a, "b": b}), f({"b": b, "a": a})]
            out += [f({"a": a}, x=a, y=b), f({"a": a}, y=b, x=a)]
        return out

    same(program, programs=4)


def test_containers_that_are_handed_back() -> None:
    kept = [randn(2)]

    def global_one(compile: Compile) -> Any:
        f = compile(lambda x: (x * 2, kept))
        return [f(randn(3))[1] is kept for _ in range(CALLS)]

    def argument(compile: Compile) -> Any:
        f = compile(lambda x, cache: (x * 2, cache))
        return [f(randn(3), kept)[1] is kept for _ in range(CALLS)]

    def own(compile: Compile) -> Any:
        f = compile(lambda x, cache: ([x * 2, *cache], {"x": list(cache)}))
        return [f(randn(3), kept) for _ in range(CALLS)]

    same(global_one, programs=None)
    same(argument, programs=None)
    same(own)


def test_attributes_of_tensors() -> None:
    def of_arguments(compile: Compile) -> Any:
        f = compile(lambda x: x * getattr(x, "tag", 1.0))
        out = []
        for k in range(CALLS):
            x = randn(3, seed=k)
            if k > 1:
                x.tag = float(k)
            out.append(f(x))
        return out

    def of_results(compile: Compile) -> Any:
        def f(x: Any) -> Any:
            y = x * 2
            y.tag = 3
            return y

        g = compile(f)
        return [g(randn(3)).tag for _ in range(CALLS)]

    def of_parameters(compile: Compile) -> Any:
        w = randn(3)
        f = compile(lambda x: x * w * w.tag)
        out = []
        for k in range(CALLS):
            w.tag = k % 2
            out.append(f(randn(3, seed=k)))
        return out

    same(of_arguments, programs=CALLS - 1)  # one for those without, and one for each other
    same(of_results, programs=None)
    same(of_parameters, programs=2)


def test_warnings_are_repeated() -> None:
    def program(compile: Compile) -> Any:
        def f(x: Any) -> Any:
            warnings.warn("careful", stacklevel=1)
            return x * 2

        g = compile(f)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(CALLS):
                g(randn(3))
        return [one.message.args for one in told if one.category is UserWarning]

    assert program(ad.compile) == program(lambda f: f)


# --- modules


def test_what_is_set_on_a_compiled_module_is_the_modules() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 1.0

        def forward(self, x: Any) -> Any:
            return x * self.scale if self.training else x

    def program(compile: Compile) -> Any:
        module = Scaled().eval()
        net = compile(module)
        out = [net.training, net(randn(3))]
        net.training = True
        for k in range(CALLS):
            net.scale = float(k % 2)
            out += [net(randn(3, seed=k)), module.scale, net.scale]
        net.weight = nn.Parameter(randn(2))
        out += [[name.split(".")[-1] for name, _ in net.named_parameters()], module.training]
        del net.scale
        return [*out, hasattr(module, "scale")]

    same(program, programs=3)


# --- arguments


def test_an_argument_that_is_given_twice_has_one_gradient() -> None:
    def program(compile: Compile) -> Any:
        f = compile(lambda a, b: (a * a * 1.1 + b.sin() * b.exp() + a.tanh() * b).sum())
        out = []
        for k in range(CALLS):
            a, b = randn(20, seed=k).requires_grad_(), randn(20, seed=9).requires_grad_()
            f(a, a).backward()
            (second,) = ad.autograd.grad(f(a, a), a, create_graph=True)
            second.sum().backward()
            f(a, b).backward()
            out += [a, b, second.detach()]
        return out

    same(program, programs=2)


# --- hooks, views and errors


def test_hooks_that_come_later_are_called_by_passes_inside() -> None:
    def program(compile: Compile) -> Any:
        weight = randn(3).requires_grad_()

        def step(x: Any) -> Any:
            (x * weight).sum().backward()
            (grad,) = ad.autograd.grad((x * weight).square().sum(), weight)
            return grad

        f = compile(step)
        out = []
        for k in range(6):
            if k == 3:
                hook = weight.register_hook(lambda g: g * 10)
            if k == 5:
                hook.remove()
            out += [f(randn(3, seed=k)), weight.grad.clone()]
        return out

    same(program, programs=None)


def test_results_that_are_views_may_be_changed() -> None:
    def program(compile: Compile) -> Any:
        f = compile(lambda x: ((x * 2)[0], x.exp().t()))
        out = []
        for k in range(CALLS):
            x = randn(3, 3, seed=k).requires_grad_()
            a, b = f(x)
            a.mul_(3)
            (a.sum() + b.square().sum()).backward()
            out += [a, b, x]
        return out

    same(program)


def test_an_error_that_nobody_wants_the_result_of() -> None:
    def program(compile: Compile) -> Any:
        def f(x: Any, index: Any) -> Any:
            x[index]
            return x * 2

        g = compile(f)
        out: list[Any] = []
        for k in (0, 2, 7, 1):
            try:
                out.append(g(randn(3), ad.tensor([k])))
            except IndexError as error:
                out.append(str(error))
        return out

    same(program)


def test_a_checkpoint_of_layers() -> None:
    from adjoint.utils.checkpoint import checkpoint

    def program(compile: Compile) -> Any:
        net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))
        f = compile(lambda x: checkpoint(net, x, use_reentrant=False).square().sum())
        out = []
        for k in range(CALLS):
            x = randn(2, 3, seed=k).requires_grad_()
            f(x).backward()
            out += [x, state(net)]
        return out

    same(program)


class Noisy(ad.autograd.Function):
    """The gradient draws a random number."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad + ad.randn(3)


def test_recording_a_backward_pass_leaves_nothing_behind() -> None:
    def random(compile: Compile) -> Any:
        f = compile(lambda x: (Noisy.apply(x).sum(), x * 2))
        out = []
        for k in range(CALLS):
            x = randn(3, seed=k).requires_grad_()
            f(x)[0].backward()
            out.append(x)
        return out

    def changing(compile: Compile) -> Any:
        total = ad.zeros(3)

        def add(grad: Any) -> None:
            total.add_(grad.abs())

        def f(x: Any) -> Any:
            y = x * 2
            y.register_hook(add)
            return y.sin().sum()

        g = compile(f)
        out = []
        for k in range(CALLS):
            x = randn(3, seed=k).requires_grad_()
            g(x).backward()
            out += [x, total.clone()]
        return out

    same(random)
    same(changing, programs=None)


def test_values_that_are_only_asked_for_their_shape() -> None:
    def program(compile: Compile) -> Any:
        f = compile(lambda x: ad.zeros_like(x.sin())[0] + x[0].exp())
        g = compile(lambda x: ad.full_like(x * 2, 2.0).sum(0) * x[0] + ad.ones_like(x @ x)[1])
        out = []
        for k in range(CALLS):
            x = randn(4, 4, seed=k).requires_grad_()
            y = f(x) + g(x)
            y.sum().backward()
            out += [y, x]
        return out

    same(program, programs=2)


def test_views_of_arguments_are_those_that_the_function_makes() -> None:
    def detached(compile: Compile) -> Any:
        f = compile(lambda x: (x.detach().view(9), x.detach()[0].expand(2, 3)))
        out = []
        for grad in (True, False) * 2:
            x = randn(3, 3).requires_grad_()
            with ad.set_grad_enabled(grad):
                found = f(x)
            found[0].add_(1)
            out += [*found, x]
        return out

    def changed(compile: Compile) -> Any:
        f = compile(lambda x: x[0])
        out = []
        for k in range(CALLS):
            x, w = randn(3, 3, seed=k), randn(3).requires_grad_()
            row = f(x)
            row.add_(w)
            x.square().sum().backward()
            out += [x, w]
        return out

    same(detached, programs=2)
    same(changed)
