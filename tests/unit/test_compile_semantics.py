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
    f(randn(6, 3).requires_grad_())
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
