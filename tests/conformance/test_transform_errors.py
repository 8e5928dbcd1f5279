"""The usual wrong arguments of every transform raise what they raise in torch.func."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

Make = Callable[[Any], Callable[[], Any]]


def square(x: Any) -> Any:
    return x * x


def total(x: Any) -> Any:
    return (x * x).sum()


def of(make: Callable[..., Any]) -> Make:
    """The call, for one library: ``make`` gets it, its func and a tensor."""
    return lambda t: lambda: make(t, t.func, t.tensor([1.0, 2.0, 3.0]))


WRONG: dict[str, Make] = {
    # arguments that are not tensors
    **{
        f"{name} of {value!r}": of(lambda t, f, x, n=name, v=value: getattr(f, n)(total)(v))
        for name in ("grad", "grad_and_value", "jacrev", "vmap")
        for value in (1.0, None, "a")
    },
    **{
        f"vjp of {value!r}": of(lambda t, f, x, v=value: f.vjp(square, v))
        for value in (1.0, None, "a")
    },
    "grad of a list of floats": of(lambda t, f, x: f.grad(lambda v: v[0])([1.0])),
    "grad of integers": of(lambda t, f, x: f.grad(total)(t.tensor([1, 2]))),
    "grad of bools": of(lambda t, f, x: f.grad(total)(t.tensor([True]))),
    "vjp of integers": of(lambda t, f, x: f.vjp(square, t.tensor([1]))),
    "jacrev of integers": of(lambda t, f, x: f.jacrev(square)(t.tensor([1]))),
    "jacfwd of integers": of(lambda t, f, x: f.jacfwd(square)(t.tensor([1]))),
    "hessian of integers": of(lambda t, f, x: f.hessian(total)(t.tensor([1]))),
    "vmap of no axes": of(lambda t, f, x: f.vmap(square)(t.tensor(1.0))),
    # none at all, or no function
    "grad of nothing": of(lambda t, f, x: f.grad(total)()),
    "grad by keyword": of(lambda t, f, x: f.grad(total)(x=x)),
    "jacrev of nothing": of(lambda t, f, x: f.jacrev(square)()),
    "jacfwd of nothing": of(lambda t, f, x: f.jacfwd(square)()),
    "vmap of nothing": of(lambda t, f, x: f.vmap(square)()),
    "grad of no function": of(lambda t, f, x: f.grad(3)(x)),
    "vjp of no function": of(lambda t, f, x: f.vjp(3, x)),
    # argnums
    **{
        f"{name} argnums={n!r}": of(
            lambda t, f, x, m=name, n=n: getattr(f, m)(lambda a, b: a.sum(), argnums=n)(x, x)
        )
        for name in ("grad", "jacrev", "jacfwd", "hessian")
        for n in (2, -3, "a", 1.0, [0], (0, 0), ("a",), ())
        if not (name == "hessian" and n == ())
    },
    # results
    "grad of a vector": of(lambda t, f, x: f.grad(square)(x)),
    "grad returns float": of(lambda t, f, x: f.grad(lambda x: 1.0)(x)),
    "grad returns None": of(lambda t, f, x: f.grad(lambda x: None)(x)),
    "grad returns a tuple": of(lambda t, f, x: f.grad(lambda x: (x.sum(), x))(x)),
    "grad of complex": of(lambda t, f, x: f.grad(lambda x: (x + 1j).sum())(x)),
    **{
        f"{name} returns {kind}": of(
            lambda t, f, x, m=name, k=kind: getattr(f, m)(
                lambda x: {
                    "float": 1.0,
                    "None": None,
                    "nothing": (),
                    "a tensor and 1": (x, 1),
                }[k]
            )(x)
        )
        for name in ("jacrev", "jacfwd", "hessian", "vmap")
        for kind in ("float", "None", "nothing", "a tensor and 1")
        if (name, kind) not in [("vmap", "nothing"), ("hessian", "a tensor and 1")]
    },
    "vjp returns float": of(lambda t, f, x: f.vjp(lambda x: 1.0, x)),
    "vjp returns None": of(lambda t, f, x: f.vjp(lambda x: None, x)),
    "vjp returns integers": of(lambda t, f, x: f.vjp(lambda x: x.long(), x)),
    "vjp returns bools": of(lambda t, f, x: f.vjp(lambda x: x > 1, x)),
    "vjp returns bools too": of(lambda t, f, x: f.vjp(lambda x: (x, x > 1), x)),
    "jacrev returns integers": of(lambda t, f, x: f.jacrev(lambda x: x.long())(x)),
    "jacrev returns bools": of(lambda t, f, x: f.jacrev(lambda x: x > 1)(x)),
    "jacrev returns complex": of(lambda t, f, x: f.jacrev(lambda x: x + 1j)(x)),
    "hessian returns integers": of(lambda t, f, x: f.hessian(lambda x: x.long())(x)),
    **{
        f"{name} without aux": of(
            lambda t, f, x, n=name: getattr(f, n)(lambda x: x.sum(), has_aux=True)(x)
        )
        for name in ("grad", "grad_and_value", "jacrev", "jacfwd")
    },
    "grad with two aux": of(lambda t, f, x: f.grad(lambda x: (x.sum(), x, x), has_aux=True)(x)),
    "vjp without aux": of(lambda t, f, x: f.vjp(square, x, has_aux=True)),
    "jvp without aux": of(lambda t, f, x: f.jvp(square, (x,), (x,), has_aux=True)),
    # cotangents and tangents
    "cotangent of another shape": of(lambda t, f, x: f.vjp(square, x)[1](t.ones(4))),
    "cotangent 1.0": of(lambda t, f, x: f.vjp(square, x)[1](1.0)),
    "cotangent None": of(lambda t, f, x: f.vjp(square, x)[1](None)),
    "cotangent in a tuple": of(lambda t, f, x: f.vjp(square, x)[1]((x,))),
    "primals in a list": of(lambda t, f, x: f.jvp(square, [x], [x])),
    "primals by themselves": of(lambda t, f, x: f.jvp(square, x, x)),
    "primals of floats": of(lambda t, f, x: f.jvp(square, (1.0,), (1.0,))),
    "primals of None": of(lambda t, f, x: f.jvp(square, (None,), (None,))),
    "no primals": of(lambda t, f, x: f.jvp(square, (), ())),
    "tangent 1.0": of(lambda t, f, x: f.jvp(square, (x,), (1.0,))),
    "tangent of another shape": of(lambda t, f, x: f.jvp(square, (x,), (t.ones(4),))),
    "two tangents": of(lambda t, f, x: f.jvp(square, (x,), (x, x))),
    "tangents in a list": of(lambda t, f, x: f.jvp(square, (x,), [x])),
    "jvp of integers": of(lambda t, f, x: f.jvp(square, (t.tensor([1]),), (t.tensor([1]),))),
    "jvp returns None": of(lambda t, f, x: f.jvp(lambda x: None, (x,), (x,))),
    "jvp returns float": of(lambda t, f, x: f.jvp(lambda x: 1.0, (x,), (x,))),
    "strict": of(lambda t, f, x: f.jvp(lambda x: t.ones(3), (x,), (x,), strict=True)),
    "linearize, another shape": of(lambda t, f, x: f.linearize(square, x)[1](t.ones(4))),
    "linearize, two tangents": of(lambda t, f, x: f.linearize(square, x)[1](x, x)),
    # options
    "jacrev chunk_size=0": of(lambda t, f, x: f.jacrev(square, chunk_size=0)(x)),
    "jacfwd randomness": of(lambda t, f, x: f.jacfwd(square, randomness="a")(x)),
    **{
        f"vmap in_dims={d!r}": of(lambda t, f, x, d=d: f.vmap(square, in_dims=d)(x))
        for d in (3, -2, "a", 1.0, [0], ("a",), None, (None,), (0, 0))
    },
    **{
        f"vmap out_dims={d!r}": of(lambda t, f, x, d=d: f.vmap(square, out_dims=d)(x))
        for d in (3, "a", 1.5, None, (0, 0))
    },
    "vmap of two sizes": of(lambda t, f, x: f.vmap(lambda a, b: a)(t.ones(2), t.ones(3))),
    "vmap randomness": of(lambda t, f, x: f.vmap(square, randomness="a")(x)),
    "vmap chunk_size=0": of(lambda t, f, x: f.vmap(square, chunk_size=0)(x)),
    "vmap chunk_size='a'": of(lambda t, f, x: f.vmap(square, chunk_size="a")(x)),
    # what has no single value, or no single shape, inside vmap
    **{
        f"vmap of {name}": of(lambda t, f, x, g=g: f.vmap(lambda a: g(t, a))(t.ones(2, 3)))
        for name, g in {
            "item": lambda t, a: a.sum().item(),
            "float": lambda t, a: float(a.sum()),
            "if": lambda t, a: a if a.sum() > 0 else -a,
            "nonzero": lambda t, a: t.nonzero(a),
            "where": lambda t, a: t.where(a > 0),
            "a mask": lambda t, a: a[a > 0],
            "unique": lambda t, a: t.unique(a),
            "tolist": lambda t, a: a.tolist(),
            "equal": lambda t, a: t.equal(a, a),
            "rand": lambda t, a: a + t.rand(3),
            "rand_like": lambda t, a: t.rand_like(a),
            "a shared tensor in place": lambda t, a: t.zeros(3).add_(a),
            "out=": lambda t, a: t.add(a, a, out=t.empty(3)),
        }.items()
    },
    # a captured tensor
    **{
        f"{name} changes a captured tensor": of(
            lambda t, f, x, n=name: (lambda c: getattr(f, n)(lambda a: c.copy_(a).sum())(x))(
                t.zeros(3)
            )
        )
        for name in ("grad", "grad_and_value", "jacrev", "jacfwd", "hessian")
    },
    # modules
    "functional_call of names that are not there": of(
        lambda t, f, x: f.functional_call(t.nn.Linear(3, 2), {"nope": x}, (x,), strict=True)
    ),
    "functional_call with names missing": of(
        lambda t, f, x: f.functional_call(
            t.nn.Linear(3, 2), {"weight": t.ones(2, 3)}, (x,), strict=True
        )
    ),
    "functional_call of no dict": of(lambda t, f, x: f.functional_call(t.nn.Linear(3, 2), 3, (x,))),
    "functional_call with 1.0": of(
        lambda t, f, x: f.functional_call(t.nn.Linear(3, 2), {"weight": 1.0}, (x,))
    ),
    "functional_call of another shape": of(
        lambda t, f, x: f.functional_call(t.nn.Linear(3, 2), {"weight": t.ones(5, 5)}, (x,))
    ),
    "functional_call of a name twice": of(
        lambda t, f, x: f.functional_call(
            t.nn.Linear(3, 2), ({"weight": t.ones(2, 3)}, {"weight": t.ones(2, 3)}), (x,)
        )
    ),
    "stack_module_state of none": of(lambda t, f, x: f.stack_module_state([])),
    "stack_module_state of two classes": of(
        lambda t, f, x: f.stack_module_state([t.nn.Linear(3, 2), t.nn.ReLU()])
    ),
    "stack_module_state of two modes": of(
        lambda t, f, x: f.stack_module_state([t.nn.Linear(3, 2), t.nn.Linear(3, 2).eval()])
    ),
    "stack_module_state of two shapes": of(
        lambda t, f, x: f.stack_module_state([t.nn.Linear(3, 2), t.nn.Linear(3, 4)])
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_class_is_that_of_torch(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            WRONG[name](torch)()
        with pytest.raises(theirs.type) as ours:
            WRONG[name](ad)()
    assert len(str(ours.value)) > 20, "a message says what happened"
