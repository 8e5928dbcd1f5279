"""A table of cases: a function, a change of state between its calls, and what must come of it.

A case is a program that gets `compile`: once `ad.compile`, once a function that gives back what it
gets. What the program returns (results, gradients, the state it has left) is the same to the last
bit both times. A call may be refused instead, with the line: then it has run eagerly. Some cases
must be recorded, since to refuse everything would be no virtue.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.compiler import CompileWarning

Compile = Callable[..., Any]
Program = Callable[[Compile], Any]


class Box:
    """An object with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@dataclasses.dataclass
class Case:
    name: str
    program: Program
    recorded: bool  # it must be
    raises: bool  # compiled, it may raise an error that says what to do


class Table:
    """The cases of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.cases: list[Case] = []

    def add(self, program: Program, recorded: bool = False, raises: bool = False) -> Program:
        self.cases.append(Case(program.__name__, program, recorded, raises))
        return program

    def __call__(self, program: Program) -> Program:
        """A program as a case, as a decorator."""
        return self.add(program)

    def recorded(self, program: Program) -> Program:
        return self.add(program, recorded=True)

    def raises(self, program: Program) -> Program:
        return self.add(program, raises=True)

    def row(
        self,
        name: str,
        make: Callable[[], Any],
        function: Callable[[Any, Any], Any],
        *changes: Callable[[Any], Any],
        recorded: bool = False,
        left: Callable[[Any], Any] | None = None,
    ) -> None:
        """A case in a line: the state, a function of it and a tensor, and changes of the state.

        `left` gives what is to be seen of the state afterwards.
        """

        def program(compile: Compile) -> Any:
            state = make()
            f = compile(lambda x: function(state, x))
            found = calls(f, *(lambda change=change: change(state) for change in changes))
            return [found, left(state) if left is not None else None]

        self.cases.append(Case(name, program, recorded, False))


def ones() -> ad.Tensor:
    return ad.ones(2, requires_grad=True)


def called(f: Callable[..., Any], *given: Any) -> Any:
    """The result of a call, and its gradient by the first tensor."""
    x = given[0] if given else ones()
    y = f(*(given or (x,)))
    if isinstance(y, ad.Tensor) and y.requires_grad and x.requires_grad:
        gradient = ad.autograd.grad(y.sum(), x, retain_graph=True, allow_unused=True)[0]
        return y.detach().clone(), gradient
    return y


def calls(f: Callable[..., Any], *changes: Callable[[], Any]) -> list[Any]:
    """Three calls, and two after each change."""
    found = [called(f) for _ in range(3)]
    for change in changes:
        change()
        found += [called(f), called(f)]
    return found


def varies(f: Callable[..., Any]) -> list[bool]:
    """Whether results differ from call to call, of what is never twice the same."""
    found = [f(ad.ones(1, dtype=ad.float64)) for _ in range(4)]
    return [not ad.equal(a, b) for a, b in zip(found[1:], found[2:], strict=False)]


def seen(thing: Any) -> Any:
    """What a person sees of a value, in a form that compares to the last bit."""
    if isinstance(thing, ad.Tensor):
        value = thing.detach().contiguous()
        data = value.view(ad.int16) if value.dtype == ad.bfloat16 else value
        grad = seen(thing.grad) if thing.is_leaf else None
        facts = type(thing), thing.dtype, thing.shape, thing.requires_grad
        return *facts, data.numpy().tobytes(), grad
    if isinstance(thing, np.ndarray):
        return "array", thing.dtype, thing.shape, thing.tobytes()
    if isinstance(thing, dict):
        return [(key, seen(value)) for key, value in thing.items()]
    if isinstance(thing, list | tuple | set):
        return type(thing), [seen(one) for one in thing]
    return type(thing), repr(thing) if isinstance(thing, float | complex) else thing


def outcome(program: Program, compile: Compile) -> Any:
    ad.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    try:
        found = seen(program(compile))
    except Exception as error:
        return error
    numpys = np.random.get_state()
    return found, seen(ad.get_rng_state()), random.getstate(), seen(list(numpys))


def check(case: Case) -> None:
    """Run a case both ways, and compare."""
    made: list[Any] = []

    def compiled(function: Any, **options: Any) -> Any:
        made.append(ad.compile(function, **options))
        return made[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome(case.program, lambda function, **_: function)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = outcome(case.program, compiled)
    texts = [str(one.message) for one in told if one.category is CompileWarning]
    for text in texts:
        assert "\n  at  " in text or "was recorded" in text, f"a refusal without a line: {text}"
    if case.raises and isinstance(found, RuntimeError) and "\n  fix: " in str(found):
        return
    if isinstance(expected, Exception):
        assert type(found) is type(expected), (found, expected)
    elif isinstance(found, Exception):
        raise found
    else:
        assert found == expected, texts
    if case.recorded:
        assert not texts
        assert sum(len(one.programs) for one in made) > 0
