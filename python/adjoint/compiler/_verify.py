"""`verify=True`: the function beside its program, in every call, compared to the last bit.

Only one of the two may leave its effects. So what the program can change is kept, the program runs
and is noted, everything is put back, and then the function runs as it is: what the caller goes on
with is eager execution, results and state. Gradients are compared by a backward pass through
each of the two, with the same numbers for the gradients that arrive. Read next: _compile.py, and
src/bindings/program/verify.cpp for what keeps and puts back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Generator, Tensor, default_generator
from adjoint.autograd._backward import gradients_between

from ._guards import Kind, alike
from ._names import code_of, place_of
from ._recorded import Recorded

__all__ = ["VerifyError", "verified"]

_MOST_TOLD = 8  # differences
# Integers of the size of an element: what is equal in every bit is equal as these.
_BITS = {1: ad.uint8, 2: ad.int16, 4: ad.int32, 8: ad.int64}


class VerifyError(RuntimeError):
    """A program gave something else than the function that it was recorded from.

    Raised by functions that were compiled with ``verify=True`` (or with ``ADJOINT_VERIFY=1`` in the
    environment). The message says what differs, where, and by how much; arguments, parameters and
    generators are as the function itself has left them.
    """


def verified(
    recorded: Recorded, function: Callable[..., Any], run: Callable[[], Any], given: list[Tensor]
) -> tuple[Any, Exception | None]:
    """The result of a function; the same of its program has been compared with it.

    The second is what the program raised, if it would run eagerly then, and the function does not.

    Parameters
    ----------
    recorded : Recorded
        The program, which fits.
    function : callable
        Who is told of in errors.
    run : callable
        Calls the function, with its arguments.
    given : list of Tensor
        The tensors among these.

    Raises
    ------
    VerifyError
        They differ.
    """
    by_program: _Outcome | Exception
    around = _Surroundings(recorded, given)
    held = recorded.guards.hold()
    kept = around.keep()
    try:
        result: Any = recorded(given)
        by_program = _Outcome(recorded, around, result)
    except Exception as error:
        by_program = error
    around.put_back(kept)
    try:
        result, draws, others = _core._run_plainly(run, around.tensors)
    except Exception as error:
        if isinstance(by_program, Exception):
            raise
        text = f"the function raises {type(error).__name__}: {_first_line(error)}"
        raise _difference(function, [text]) from error
    if isinstance(by_program, Exception):
        if recorded.program.is_pure():
            return result, by_program
        kind = type(by_program).__name__
        text = f"the program raises {kind}: {_first_line(by_program)}"
        raise _difference(function, [text]) from by_program
    found = list(_differences(by_program, _Outcome(recorded, around, result)))
    if not recorded.program.calls_python():  # an external may do anything, in both
        found += [f"a tensor {list(t.shape)} is changed by the function alone" for t in others]
        if draws and not recorded.program.draws():
            found.append("random numbers are drawn by the function alone")
        if held and not recorded.guards.steps and not recorded.guards.hold():
            found.append(f"the function changes what it reads: {recorded.guards.failed()}")
    if found:
        raise _difference(function, found)
    return result, None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _difference(function: Callable[..., Any], found: list[str]) -> VerifyError:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    code = code_of(function)
    lines = [f"the program that {name} was compiled to does not do what the function does"]
    if code is not None:
        lines[0] += f"\n  at  {place_of(code, None)}"
    lines += found[:_MOST_TOLD]
    if len(found) > _MOST_TOLD:
        lines.append(f"and {len(found) - _MOST_TOLD} more")
    lines.append(
        "fix: leave the function uncompiled (disable=True), and report this: compiled functions "
        "differ from eager ones nowhere. If `adjoint.compiler.pure` was said of something, look "
        "whether that is true"
    )
    return VerifyError("\n  ".join(lines))


class _Surroundings:
    """What a program can change: tensors and their gradients, optimisers, generators."""

    def __init__(self, recorded: Recorded, given: list[Tensor]) -> None:
        self.named: dict[str, Tensor] = {f"argument {k}": t for k, t in enumerate(given)}
        paths = {id(row.holder): row.path for row in recorded.guards.rows(Kind.TENSOR)}
        others = _once([*given, *recorded.reached, *recorded.guards.tensors()])
        for k, t in enumerate(others[len(_once(given)) :]):
            self.named[f"{paths.get(id(t), 'a tensor that it reaches')} ({k})"] = t
        self.steppers = {f"{type(s).__name__} {k}": s for k, s in enumerate(recorded.guards.steps)}
        self.differentiated = [t for t in _once([*given, *recorded.reached]) if t.requires_grad]
        # Those that it draws from: what others do with theirs at the same time is their business.
        partial = [program for program, _ in recorded.partial.values()]
        programs = [recorded.program, *([recorded.backward] if recorded.backward else []), *partial]
        self.generators: list[Generator] = []
        for program in programs:
            self.generators += [default_generator, *program.generators()] if program.draws() else []

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors there are now, those of optimisers included."""
        held = (value for _, value in self.state() if isinstance(value, Tensor))
        return _once([*self.named.values(), *held])

    def state(self) -> Iterator[tuple[str, Any]]:
        """What is in optimisers and schedulers, by name."""
        for name, stepper in self.steppers.items():
            for path, value, _ in _contents(vars(stepper), name):
                yield path, value

    def keep(self) -> Any:
        tables = [
            (table, table.copy())
            for name, stepper in self.steppers.items()
            for _, table, is_table in _contents(vars(stepper), name)
            if is_table
        ]
        return (
            _core._keep_state(self.tensors),
            [(vars(stepper), dict(vars(stepper))) for stepper in self.steppers.values()] + tables,
            self.states(),
        )

    def put_back(self, kept: Any) -> None:
        memory, tables, states = kept
        for table, before in tables:
            table.clear()
            table.extend(before) if isinstance(table, list) else table.update(before)
        _core._put_back(memory)
        self.set_states(states)

    def states(self) -> list[Tensor]:
        return [generator.get_state() for generator in self.generators]

    def set_states(self, states: list[Tensor]) -> None:
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state)


def _contents(table: Any, path: str) -> Iterator[tuple[str, Any, bool]]:
    """What is in a table and in tables in it: names, values, and whether these are tables."""
    items = table.items() if isinstance(table, dict) else enumerate(table)
    for k, (key, value) in enumerate(list(items)):
        name = f"{path}.{key}" if isinstance(key, str) else f"{path}[{k}]"
        is_table = isinstance(value, dict | list)
        yield name, value, is_table
        if is_table:
            yield from _contents(value, name)


class _Outcome:
    """What a call has given and left."""

    def __init__(self, recorded: Recorded, around: _Surroundings, result: Any) -> None:
        leaves, self.structure = _tree.flatten(result)
        self.results = {f"result {k}": leaf for k, leaf in enumerate(leaves)}
        # Which tensor each of them is: one from outside, or the first of those that are the same.
        known = {id(t): name for name, t in [*around.named.items(), *self.results.items()][::-1]}
        self.identities = [known.get(id(leaf)) for leaf in leaves if isinstance(leaf, Tensor)]
        self.left: dict[str, Any] = {}
        for name, t in around.named.items():
            self.left[name] = _copy(t)
            self.left[f"the gradient of {name}"] = _copy(t.grad if t.is_leaf else None)
        for name, value in around.state():
            if not isinstance(value, dict | list):
                self.left[name] = _copy(value)
        states = around.states()
        self.left |= {f"generator {k}": state for k, state in enumerate(states)}
        self.gradients = _gradients(recorded, leaves, around.differentiated)
        around.set_states(states)  # a backward pass may draw
        self.results = {name: _copy(leaf) for name, leaf in self.results.items()}


class _Copy(NamedTuple):
    """A tensor as it was, and what else can be seen of it."""

    numbers: Tensor
    strides: tuple[int, ...]
    requires_grad: bool
    is_leaf: bool
    kind: type


def _copy(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    numbers = value.detach().clone()
    return _Copy(numbers, value.stride(), value.requires_grad, value.is_leaf, type(value))


def _gradients(recorded: Recorded, leaves: list[Any], by: list[Tensor]) -> dict[str, Tensor | None]:
    """A backward pass for each choice of results that has a program."""
    if recorded.backward is None or not _core.is_grad_enabled():
        return {}
    results = {k: leaves[place] for place, k in recorded.from_outputs}
    outputs = [results[k] for k in recorded.differentiable]
    if not all(isinstance(t, Tensor) and t.requires_grad for t in outputs):
        return {}  # compared before
    numbers = Generator()
    arriving = [ad.empty_like(t).normal_(generator=numbers) for t in outputs]
    found: dict[str, Tensor | None] = {}
    for arrived in [(True,) * len(outputs), *recorded.partial]:
        asked = [(t, g) for t, g, on in zip(outputs, arriving, arrived, strict=True) if on]
        gradients = gradients_between(asked, by, keep=True)
        of = "" if all(arrived) else f" of results {[k for k, on in enumerate(arrived) if on]}"
        for k, gradient in enumerate(gradients):
            found[f"gradient {k}{of}"] = gradient
    return found


def _once(tensors: Sequence[Tensor]) -> list[Tensor]:
    return list({id(t): t for t in tensors}.values())


# -- differences -----------------------------------------------------------------------------------


def _differences(program: _Outcome, eager: _Outcome) -> Iterator[str]:
    if program.structure != eager.structure:
        yield f"the result is {eager.structure} eagerly, {program.structure} in the program"
        return
    if program.identities != eager.identities:
        yield f"tensors of the result are {eager.identities} eagerly, {program.identities} there"
    for ours, others in (
        (program.results, eager.results),
        (program.left, eager.left),
        (program.gradients, eager.gradients),
    ):
        for name in [*others, *(one for one in ours if one not in others)]:
            text = _difference_of(ours.get(name), others.get(name))
            if text:
                yield f"{name}: {text}"


def _difference_of(program: Any, eager: Any) -> str:
    """How two values differ; an empty text if they do not."""
    if isinstance(program, _Copy) and isinstance(eager, _Copy):
        for what, a, b in zip(_Copy._fields[1:], program[1:], eager[1:], strict=True):
            if a != b:
                return f"{what}: {b} eagerly, {a} in the program"
        program, eager = program.numbers, eager.numbers
    if isinstance(program, Tensor) and isinstance(eager, Tensor):
        return _difference_of_tensors(program.detach(), eager.detach())
    if program is eager or (type(program) is type(eager) and _same(program, eager)):
        return ""
    return f"{_shown(eager)} eagerly, {_shown(program)} in the program"


def _same(a: Any, b: Any) -> bool:
    return bool(a.hex() == b.hex()) if isinstance(a, float) else a == b or alike(a, b)


def _shown(value: Any) -> str:
    if isinstance(value, _Copy):
        value = value.numbers
    return f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else repr(value)


def _difference_of_tensors(program: Tensor, eager: Tensor) -> str:
    for what in ("dtype", "shape", "is_conj", "is_neg"):
        a, b = (x() if callable(x := getattr(t, what)) else x for t in (program, eager))
        if a != b:
            return f"{what}: {b} eagerly, {a} in the program"
    parts = _bits(program), _bits(eager)
    unequal = (parts[0] != parts[1]).reshape(-1, 2 if program.is_complex() else 1).any(1)
    if not unequal.any():
        return ""
    place = int(unequal.nonzero()[0, 0])
    a, b = program.flatten()[place].item(), eager.flatten()[place].item()
    index = [int(i) for i in ad.unravel_index(ad.tensor(place), program.shape)]
    text = (
        f"{int(unequal.sum())} of {program.numel()} elements differ; the first, at {index}, is "
        f"{b!r} eagerly, {a!r} in the program"
    )
    if program.is_floating_point():
        text += f"; the largest difference is {(program.double() - eager.double()).abs().max():.3g}"
    return text


def _bits(tensor: Tensor) -> Tensor:
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = ad.view_as_real(tensor)
    if tensor.dtype == ad.bool:
        return tensor.contiguous()
    if tensor.is_floating_point():  # which NaN it is where two meet is left open
        tensor = tensor.masked_fill(tensor.isnan(), float("nan"))
    return tensor.contiguous().view(_BITS[tensor.element_size()])
