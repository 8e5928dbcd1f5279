"""One recorded kind of call: its programs, and the node they make in the graph.

The forward part of a recording gives the outputs, and the values that the backward part will read.
A replayed call is one node: its backward runs the backward part. Where the backward itself is to be
differentiated (create_graph), the function runs once more eagerly, and its own graph gives what is
asked for. Read next: _first_call.py, which makes the programs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._recording import runs_again
from adjoint.autograd import enable_grad
from adjoint.autograd._backward import gradients_between

from ._guards import Guards
from ._listing import listing

__all__ = ["Recorded", "Refused", "differentiated", "run_backward"]


class Refused(Exception):
    """Why a call cannot be recorded, and where."""

    def __init__(self, reason: str, where: str) -> None:
        super().__init__(reason, where)
        self.reason, self.where = reason, where


class Recorded:
    """What a kind of call became.

    Attributes
    ----------
    program
        What the forward part computes; ``program.code()`` has a tuple for each instruction.
    backward
        The same of the backward part; None if there is none.
    guards
        What was read of the program around; ``guards.describe()`` names it.

    Examples
    --------
    >>> import adjoint as ad
    >>> f = ad.compile(lambda a, b: a @ b @ a)
    >>> _ = f(ad.ones(2, 2), ad.ones(2, 2))
    >>> print(f.programs[0])
    forward: ...
      %2... = ...
    """

    def __init__(self, rebuild: Callable[[Sequence[Tensor]], Any]) -> None:
        self.rebuild = rebuild  # calls the function eagerly, with other tensors
        self.guards = Guards(())
        self.guarded = False
        self.hold = self.guards.hold
        # Whether the program gives what the function would: by tensors, and by all else.
        self.accepts: Callable[[list[Tensor]], bool] = self._finish_and_accept
        # The call that was recorded, while it has not yet been made programs of.
        self.first: weakref.ref[Any] | None = None
        self.spec: Any = None
        self.values: list[Any] = []  # the leaves of the result; None where a tensor stands
        self.from_outputs: list[tuple[int, int]] = []  # (leaf, output of the program)
        self.from_inputs: list[tuple[int, int]] = []  # (leaf, argument, or tensor reached)
        self.single = False  # the result is one tensor, which the program computes
        self.count = 0  # outputs that are results; the others are for the backward part
        self.differentiable: list[int] = []  # which of them have a gradient
        self.inner: list[int] = []  # results that others of them are computed from
        self.reached: list[Tensor] = []
        # The same as `backward` where some gradients do not arrive, by whether each does, and which
        # of the values that are kept it reads.
        self.partial: dict[tuple[bool, ...], tuple[Any, list[int]]] = {}
        self.no_backward = ""
        self.places: list[int] = []
        self.check_backward: Callable[[], None] | None = None
        self.calls_python = False  # an external may change what was compared before it ran
        self.memory: Guards | None = None  # and so may a change of a tensor
        self.is_plain = False  # nothing is asked but the program and the guards
        self.may_be_remembered = False  # by the core, which then needs nothing of this
        self.codes: list[tuple[Any, str, str]] = []  # that ran, how they are treated, modules
        self.shown: tuple[Any, list[Any]] = (None, [])  # the arguments, without their tensors

    program: Any  # a gradient for each argument and tensor reached is what `backward` gives
    backward: Any

    def __getattr__(self, name: str) -> Any:
        """Make the programs, where somebody asks for them before a call has needed them."""
        if name in ("program", "backward") and self.finish():
            return self.__dict__[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def is_ready(self) -> bool:
        """Whether there are programs already."""
        return "program" in self.__dict__

    def finish(self) -> bool:
        """Make the programs of the recorded call, if there are none; whether there are now."""
        first = None if self.first is None else self.first()
        return self.is_ready() or (first is not None and first.finish())

    def is_lost(self) -> bool:
        """Whether the recorded call was let go of before it became programs."""
        first = None if self.first is None else self.first()
        return not self.is_ready() and (first is None or not first.is_open())

    def _finish_and_accept(self, tensors: list[Tensor]) -> bool:
        first = None if self.first is None else self.first()
        return (
            first is not None
            and first.looks_like(tensors)
            and self.finish()
            and self.accepts(tensors)
        )

    def guard_by(self, guards: Guards, tensors: list[Tensor], containers: list[Any]) -> None:
        """Say what must hold, besides what the program compares of the arguments."""
        self.guards = guards
        self.places = guards.places(containers)
        self.hold = guards.hold
        self.guarded = True
        if self.is_ready():
            self._connect(tensors)

    def take(self, program: Any, backward: Any, tensors: list[Tensor]) -> None:
        """Have programs, which were recorded with these arguments."""
        self.program, self.backward = program, backward
        if self.guarded:
            self._connect(tensors)

    def _connect(self, tensors: list[Tensor]) -> None:
        """Run the programs from now on, where the guards hold."""
        program, guards = self.program, self.guards
        self.accepts = program.accepts
        # Where the program reads an argument that the function also finds by itself, it is not
        # known which was meant; and it may have asked whether they are the same.
        program.tell_apart(tensors, guards.tensors())
        if guards.arguments is not None:
            accepts, check = self.accepts, guards.arguments
            self.accepts = lambda given: accepts(given) and check(given)
        self.calls_python = program.calls_python() and not guards.steps
        self.memory = guards.memory if guards.memory and program.changes() else None
        if guards.later is not None:
            self.check_backward = self._check_backward
        self.is_plain = guards.arguments is None and not self.calls_python and self.memory is None
        self.may_be_remembered = self.is_plain

    def knows(self, containers: list[Any]) -> bool:
        """Whether lists, dicts, ... among the arguments are those that the function also reaches.

        They are, or are not, as they were.
        """
        return not containers or self.guards.places(containers) == self.places

    def _check_backward(self) -> None:
        later = self.guards.later
        if later is not None and not later.hold():
            raise RuntimeError(
                "a hook or a custom function inside a compiled function reads in its backward "
                f"pass what has changed since the call: {later.failed()}.\n"
                "  fix: change it after the backward pass, or leave the function uncompiled "
                "(disable=True)"
            )

    def __str__(self) -> str:
        """What it computes, an instruction per line; long programs are cut short."""
        return listing(self.program, self.backward)

    def __repr__(self) -> str:
        """How long its passes are."""
        passes = (line for line in str(self).split("\n") if not line.startswith(" "))
        return f"<program, {'; '.join(passes)}>"

    def _repr_html_(self) -> str:
        from adjoint.notebook import program_html

        return program_html(self)

    def mismatch(self, tensors: list[Tensor]) -> str | None:
        """Why not."""
        why: str | None = self.program.mismatch(tensors)
        return why or self.guards.failed()

    def __call__(self, tensors: list[Tensor]) -> Any:
        """The result of the function."""
        if self.differentiable and _core.is_grad_enabled():
            found = _core._replay(
                self, self.program, tensors, self.reached, self.count, self.differentiable
            )
        else:
            found = self.program.run(tensors)
        if self.calls_python and not self.hold(tensors):
            raise RuntimeError(
                "an external that a compiled function calls has changed what the function depends "
                f"on: {self.mismatch(tensors)}. The rest of the call was computed without it.\n"
                "  fix: return the new value from the external, or leave the function uncompiled "
                "(disable=True)"
            )
        if self.memory is not None and not self.memory.hold():
            raise RuntimeError(
                "a compiled function has changed a tensor that shares memory with an array whose "
                f"numbers it depends on: {self.memory.failed()}. The rest of the call was "
                "computed with the old ones.\n"
                "  fix: read the array by a tensor, or leave the function uncompiled (disable=True)"
            )
        return found[0] if self.single else self._build(found, tensors)

    def _build(self, found: list[Tensor], tensors: list[Tensor]) -> Any:
        """What the function returned, with other tensors."""
        leaves = list(self.values)
        for place, k in self.from_outputs:
            leaves[place] = found[k]
        for place, k in self.from_inputs:
            leaves[place] = tensors[k] if k < len(tensors) else self.reached[k - len(tensors)]
        return _tree.unflatten(self.spec, leaves)

    def for_the_core(self) -> tuple[Any, ...]:
        """What the core needs to replay this without Python: bindings/program/compiled_call.cpp."""
        self.may_be_remembered = False
        form: Any = None
        if not self.single:
            in_order = self.from_outputs == [(k, k) for k in range(self.count)]
            flat = self.spec.type is tuple and all(one.is_leaf() for one in self.spec.children())
            form = tuple if flat and in_order and self.count == len(self.values) else self._build
        return (
            self.program,
            self.guards.core,
            self.reached,
            self.count,
            self.differentiable,
            self.program.is_pure(),
            form,
        )

    def gradients(
        self, given: list[Tensor], versions: Sequence[int], grads: Sequence[Any]
    ) -> list[Any]:
        """The gradients by way of the function's own graph: recorded like everything else.

        Called by the node of a replayed call where the backward part is not enough.
        """
        if self.backward is None:
            raise RuntimeError(self.no_backward)
        if self.program.draws():
            raise RuntimeError(
                "a compiled function that draws random numbers has no second derivative, none "
                "inside transforms, and none of some of its outputs only: the function would "
                "have to run again, with other numbers.\n"
                "  fix: draw outside it and pass the numbers, or leave it uncompiled "
                "(disable=True)"
            )
        if self.program.changes():
            raise RuntimeError(
                "a compiled function that changes tensors from outside it (running statistics, "
                "an argument, a gradient) has no second derivative, and none inside transforms: "
                "the function would have to run again, and change them again.\n"
                "  fix: leave it uncompiled (disable=True), or let it return the new values"
            )
        if self.program.reads_gradients():
            raise RuntimeError(
                "a compiled function that reads the gradient (`.grad`) of a tensor from outside "
                "has no second derivative, and none inside transforms: the function would have "
                "to run again, and read the gradient of another time.\n"
                "  fix: pass the gradient as an argument, or leave it uncompiled (disable=True)"
            )
        for tensor, version in zip(given, versions, strict=True):
            if tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: an argument of a compiled function, {list(tensor.shape)}, "
                    f"is at version {tensor._version}; expected version {version} instead.\n"
                    "  fix: change a clone() of it"
                )
        count = len(given) - len(self.reached)
        if not (self.accepts(given[:count]) and self.hold(given[:count])):
            changed = self.mismatch(given[:count]) or "a value that it reads"
            raise RuntimeError(
                "the gradient of a compiled function is taken in a way that runs the function "
                "again (create_graph, a transform, some of many results), and what it depends on "
                f"has changed since the call: {changed}.\n"
                "  fix: change it after the backward pass, pass it as an argument, or leave the "
                "function uncompiled (disable=True)"
            )
        graph = _core.is_grad_enabled()
        with enable_grad():
            again = runs_again.set(True)
            try:
                leaves, _ = _tree.flatten(self.rebuild(given[:count]))
            finally:
                runs_again.reset(again)
        results = {k: leaves[place] for place, k in self.from_outputs}
        return run_backward(results, given, grads, graph, graph)


def run_backward(
    results: Mapping[int, Tensor] | Sequence[Tensor],
    given: Sequence[Tensor],
    grads: Sequence[Any],
    retain: bool,
    graph: bool,
) -> list[Any]:
    """The gradients of tensors that results were computed from, through the graph between them."""
    needs = differentiated(given)
    asked = [(results[k], g) for k, g in enumerate(grads) if g is not None]
    with enable_grad():
        found = gradients_between(asked, [given[k] for k in needs], retain, graph)
    result: list[Any] = [None] * len(given)
    for k, g in zip(needs, found, strict=True):
        result[k] = g
    return result


def differentiated(tensors: Sequence[Tensor]) -> list[int]:
    """The tensors that get a gradient: each once, wherever else it stands."""
    first = {id(t): k for k, t in reversed([*enumerate(tensors)])}
    return [k for k, t in enumerate(tensors) if t.requires_grad and first[id(t)] == k]
