"""Fuzzed sequences as functions: compiled, they do what they do eagerly, to the last bit.

The first steps of a sequence make the arguments, those behind the step `BODY` are the lines of the
function. Both forms are called on arguments of their own; compared are the results with their
strides and what shares memory with what, gradients, errors, and all memory of the arguments.
Read next: steps.py, which draws the lines.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import _core
from tools.fuzzing.child import Failure, Log
from tools.fuzzing.steps import COMPILED, Steps
from tools.fuzzing.world import ERRORS, Step, Violation, World, canonical, guards

BODY = Step("# the function:")
LENGTH = 12
CALLS = 3  # the first is recorded, the others are replays
_ASSIGNED = re.compile(r"^(v\d|t) = ")


def sequence(name: str, log: Log) -> None:
    """Draw a function by running its lines, then compare its two forms."""
    rng, world = random.Random(name), World()
    steps = Steps(rng, world, COMPILED)
    log.begin()
    done, begun = log.counts
    made = []
    for step in arguments(rng):
        log.note(step)
        if world.run(step) is None:
            made.append(step)
    log.note(BODY)
    body = []
    for i in range(LENGTH):
        step = steps.draw()
        log.note(step)
        if world.run(step) is None:
            body.append(step)
        log.counts = (done + i + 1, begun)
    del world
    compare(made, body)
    log.counts = (done + LENGTH, begun + 1)


def repeat(steps: list[Step], log: Log) -> None:
    """Run given steps, those behind `BODY` as a function."""
    world, made, body = World(), list[Step](), list[Step]()
    target = made
    for step in steps:
        log.note(step)
        if step == BODY:
            target = body
        elif world.run(step) is None:
            target.append(step)
        log.counts = (log.counts[0] + 1, 0)
    del world
    compare(made, body)


def arguments(rng: random.Random) -> list[Step]:
    """Steps that make the arguments: on guarded arrays, of the library's own, views of others."""
    made = []
    for i in range(rng.choice((1, 2, 3))):
        dtype = rng.choice(
            ("float32", "float32", "float64", "int64", "bool", "float16", "complex64")
        )
        shape = rng.choice(("", ".reshape(3, 4)", ".reshape(2, 3, 2)", "[::2]", ".reshape(4, 3).T"))
        made.append(Step(f"b{i} = guarded({dtype!r}, 12)"))
        clone = ".clone()" if rng.random() < 0.4 else ""
        leaf = ".requires_grad_()" if "float" in dtype and rng.random() < 0.3 else ""
        made.append(Step(f"v{i} = ad.from_numpy(b{i}{shape}){clone}{leaf}"))
    if rng.random() < 0.4:
        other = ("v0", "v0[1:]", "v0.detach()", "v0[::2]", "v0.T", "ad.from_numpy(b0[1:])")
        made.append(Step(f"v{i + 1} = {rng.choice(other)}"))
    return made


def function(body: list[Step], names: dict[str, Any]) -> tuple[Callable[..., Any], list[str]]:
    """The function that the lines are, and the names of its arguments."""
    inputs = sorted(name for name in names if re.fullmatch(r"v\d", name))
    assigned = {match[1] for step in body if (match := _ASSIGNED.match(step.line))}
    lines = [f"def f({', '.join(inputs)}):", *(f"    {step.line}" for step in body)]
    lines.append(f"    return [{', '.join(sorted(assigned | set(inputs)))}]")
    exec("\n".join(lines), names)
    made: Callable[..., Any] = names["f"]
    return made, inputs


def compare(made: list[Step], body: list[Step]) -> None:
    """Call the function eagerly and compiled, and raise if anything differs."""
    want = called(made, body, lambda f: f, 1)[0]
    for call, got in enumerate(called(made, body, ad.compile, CALLS)):
        for what, one in want.items():
            if got.get(what) != one:
                raise Violation(
                    f"compiled differs: {what.split()[0]}",
                    f"{what} of call {call}: {str(got.get(what))[:200]}, eagerly {str(one)[:200]}",
                )
    if _core._is_recording() or _core._is_unusual_mode():
        raise Violation("compiled leaves a mode", "a recording or a mode is left behind")


def called(
    made: list[Step], body: list[Step], form: Callable[..., Any], calls: int
) -> list[dict[str, Any]]:
    """What is seen of each of the calls of one form of the function."""
    world = World()
    for step in made:
        exec(step.line, world.names)
    f, inputs = function(body, world.names)
    f = form(f)
    seen = []
    for call in range(calls):
        if call:
            names = World().names
            for step in made:
                exec(step.line, names)
        else:
            names = world.names
        seen.append(facts(f, [names[name] for name in inputs]))
    return seen


def facts(f: Callable[..., Any], inputs: list[Any]) -> dict[str, Any]:
    """What can be seen of a call."""
    ad.manual_seed(0)
    found: dict[str, Any] = {}
    results: list[Any] = []
    try:
        for result in f(*inputs):
            results += result if isinstance(result, tuple) else [result]
    except ERRORS as error:
        found["error"] = type(error).__name__
    places = [_core._storage(x)[0] for x in inputs + results if isinstance(x, ad.Tensor)]
    tensors = [x for x in results if isinstance(x, ad.Tensor)]
    for i, result in enumerate(tensors):
        found[f"result {i}"] = content(result)
    # Storages of no bytes have no place of their own.
    sizes = [_core._storage(x)[1] for x in inputs + tensors]
    found["sharing"] = [
        places.index(place) if size else -1 for place, size in zip(places, sizes, strict=True)
    ]
    # An argument that is a result would get the gradients of both in another order.
    given = {id(x) for x in inputs}
    summed = [x for x in tensors if x.requires_grad and id(x) not in given]
    summed = [x for x in summed if not x.is_complex() and x.numel() < 1 << 16]
    total = sum((x.sum() for x in summed), ad.zeros(()))
    if total.requires_grad:
        try:
            total.backward()
        except ERRORS as error:
            found["backward"] = type(error).__name__
    for i, x in enumerate(inputs):
        found[f"argument {i}"] = content(x)
        if x.is_leaf and x.grad is not None:
            found[f"gradient {i}"] = content(x.grad)
    found["memory"] = guards()
    return found


def content(x: Any) -> Any:
    """The values of a tensor, as bytes, with the geometry it has."""
    values = x.detach()
    if values.numel() > 1 << 16:
        return tuple(x.shape)
    values = values.contiguous().clone().reshape(-1)
    data = values.view(ad.uint8).numpy().tobytes() if values.numel() else b""
    strides = tuple(s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1)
    data = canonical(data, x.dtype)
    bits = x.is_conj(), x.is_neg()
    return tuple(x.shape), strides if x.numel() else (), x.dtype, x.requires_grad, bits, data


def program(failure: Failure) -> str:
    """A failure as a program that shows it."""
    lines = [
        f"# {failure.kind}: {' '.join(failure.text.split())[:300]}",
        f"# seed {failure.sequence}; from the repository: PYTHONPATH=python:. python FILE",
        "from tools.fuzzing.child import Log",
        "from tools.fuzzing.compiled import BODY, repeat",
        "from tools.fuzzing.world import Step",
        "",
        "steps = [",
        *("    BODY," if step == BODY else f"    Step{tuple(step)!r}," for step in failure.steps),
        "]",
        "repeat(steps, Log())",
    ]
    return "\n".join(lines) + "\n"
