"""Where every evaluation of an external, and every use of its derivatives, passes through.

Eagerly they are calls as they stand. Inside a program (`adjoint.compile`) they are host calls,
which a replay repeats: the evaluation is one kind, each use of a derivative is another, which gets
inputs and outputs of the evaluation, and vectors. The call that an evaluation made is looked up by
its outputs, so that a Jacobian is computed once for several passes in programs too. Read
_function.py first.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._recording import placeholder_pass

from ._outputs import Outputs

__all__ = ["derivatives", "evaluate", "linear"]


class RecordedEvaluation:
    """The function, as a program calls it."""

    def __init__(self, call: Any, others: list[int]) -> None:
        self.form = again(call)  # of arguments and, later, of results: no values
        self.others = others  # leaves that are tensors, but not inputs
        self.recorded = call  # until it has run
        self.fixed: Sequence[Tensor] = ()
        self.calls: dict[int, tuple[Any, Any]] = {}  # address of an output -> its tensor, its call
        for k in others:
            self.form.leaves[k] = None

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Evaluate; the outputs."""
        call = self.recorded or again(self.form)
        count = len(tensors) - len(self.others)
        for k, tensor in zip(self.others, tensors[count:], strict=True):
            call.leaves[k] = tensor
        made: list[Tensor]
        made, fixed = call(list(tensors[:count]))
        if self.recorded:
            self.recorded, self.fixed, self.form.outputs = None, fixed, call.outputs
        if made:
            self._note(made[0], call)
        return made

    def call_of(self, saved: Sequence[Tensor]) -> Any:
        """The call with these inputs and outputs, if it is still known; else one like it."""
        outputs = saved[len(self.form.places) : len(saved) - len(self.others)]
        key = outputs[0].data_ptr() if outputs else 0
        _, call = self.calls.get(key, (None, None))
        if call is not None:
            return call
        call = again(self.form)
        for k, tensor in zip(self.others, saved[len(saved) - len(self.others) :], strict=True):
            call.leaves[k] = tensor
        call.outputs = self.form.outputs
        if isinstance(call.outputs, Outputs):
            call.outputs = call.outputs.of_numbers(outputs)
        elif call.outputs is not None and not isinstance(call.outputs, int):
            call.outputs = type(call.outputs)(outputs[0].item())  # a number: that of this call
        if outputs:
            self._note(outputs[0], call)
        return call

    def _note(self, output: Tensor, call: Any) -> None:
        """Remember a call as long as its first output lives."""
        key = output.data_ptr()
        self.calls[key] = (weakref.ref(output, lambda _: self.calls.pop(key, None)), call)


def again(call: Any) -> Any:
    """A call of the same form, not yet evaluated."""
    other = copy.copy(call)
    other.leaves = list(call.leaves)
    other.outputs = other.found = other.evaluation = None
    other.ready = []
    return other


def evaluate(call: Any, inputs: Sequence[Tensor]) -> tuple[list[Tensor], Sequence[Tensor]]:
    """The outputs of a call, and those without a derivative; in a recording, as a host call."""
    if not _core._is_recording():
        outputs: tuple[list[Tensor], Sequence[Tensor]] = call(inputs)
        return outputs
    name = call.definition.name
    if call.ready:
        _core._refuse_recording(f"the external {name} is mapped over by workers")
        return evaluate(call, inputs)
    others = [
        k for k, x in enumerate(call.leaves) if isinstance(x, Tensor) and k not in call.places
    ]
    extra = [call.leaves[k] for k in others]
    step = RecordedEvaluation(call, others)
    call.evaluation = (step, extra)
    made = _core._host_call(step, [*inputs, *extra])
    form = step.form.outputs
    if isinstance(form, Outputs) and len(form.numeric()) != len(form.leaves):
        _core._refuse_recording(f"the external {name} returns more than numbers")
    return made, step.fixed


def derivatives(call: Any, saved: Sequence[Tensor], wanted: Sequence[bool]) -> Any:
    """The derivatives of a call, which know in a recording where they come from."""
    if not _core._is_recording():
        return call.derivatives(saved, wanted)
    found = _core._unrecorded(lambda: call.derivatives(saved, wanted))
    if call.evaluation is not None:
        step, extra = call.evaluation
        found.origin = (step, list(wanted), [*saved, *extra])
    return found


class RecordedDerivative:
    """One of the linear maps at an input, as a program calls it."""

    def __init__(self, maps: Any, method: str, sizes: list[int]) -> None:
        self.evaluation, self.wanted, saved = maps.origin
        self.count = len(saved)
        self.method, self.sizes, self.expected = method, sizes, maps.expected

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Apply the map."""
        saved = list(tensors[: self.count])
        call = self.evaluation.call_of(saved)
        results = saved[: self.count - len(self.evaluation.others)]
        maps = call.derivatives(results, self.wanted)
        maps.expected = self.expected
        groups, at = [], self.count
        for size in self.sizes:
            groups.append(list(tensors[at : at + size]))
            at += size
        return list(getattr(maps, self.method)(*groups))


def linear(
    maps: Any, method: str, *groups: Sequence[Tensor], like: Sequence[Tensor] = ()
) -> tuple[Tensor, ...]:
    """Apply one of the maps of a call; in a recording, as a host call.

    ``like`` are tensors of the form that the results have, for a pass of placeholders.
    """
    if not _core._is_recording():
        return tuple(getattr(maps, method)(*groups))
    if maps.origin is None:
        _core._refuse_recording(
            f"the derivative of a call of {maps.definition.name} from outside the function "
            "takes part"
        )
        return linear(maps, method, *groups)
    step = RecordedDerivative(maps, method, [len(g) for g in groups])
    operands = [*maps.origin[2], *(t for g in groups for t in g)]
    if placeholder_pass.get() and like:
        return tuple(_core._host_call(step, operands, list(like)))
    return tuple(_core._host_call(step, operands))
