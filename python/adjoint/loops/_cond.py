"""`cond` inside a recording: both branches are recorded, and each run takes one of them.

A branch is a loop of one step, whose rows are the operands: so it is one instruction of the program
around it, forward and backward, as a scan is (`_recorded_loop`). Where it cannot be recorded the
branch is chosen now, which refuses the recording around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint.autograd import Function, enable_grad
from adjoint.autograd._backward import gradients_between
from adjoint.compiler._recorded import Refused
from adjoint.compiler._walk import current_walk

from ._branches import Branches
from ._carry import Carry, tensor_of
from ._drawn_numbers import DrawnNumbers
from ._loop import distinct
from ._memory import Memory
from ._recorded_loop import RecordedBackward, RecordedForward, behind
from ._rehearsal import Rehearsal
from ._run import LoopRun
from ._step import record_inside

__all__ = ["Cond", "cond_by_sample", "only_where", "recorded_cond", "taken_by_sample"]


def recorded_cond(
    pred: Tensor, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any
) -> Any:
    """The result of one of two functions, as an instruction of the program that is recorded."""
    leaves, spec = _tree.flatten(operands)
    walk = current_walk()
    if walk is not None and walk.has_effects():
        _core._refuse_recording(walk.refusals[0].reason)
    if (
        not _core._is_recording()
        or _core._loop_mode()
        or not all(isinstance(leaf, Tensor) for leaf in leaves)
    ):
        return true_fn(*operands) if bool(pred) else false_fn(*operands)
    branches = _RecordedBranches(spec)
    taken = _core._unrecorded(lambda: bool(pred))
    for which in (taken, not taken):
        with Rehearsal() as rehearsal:
            result = branches.record(which, true_fn if which else false_fn, leaves)
        if walk is not None and walk.has_effects():
            if which is taken:  # which must not happen twice
                _core._refuse_recording(walk.refusals[0].reason)
                return result
            walk._take_back()  # it would not have run
            rehearsal.undo()
            break
        if which not in branches.loops:  # it runs once more, or does not run
            rehearsal.undo()
    if not branches.agree() or (walk is not None and walk.refusals):
        return true_fn(*operands) if bool(pred) else false_fn(*operands)
    found = Cond.apply(lambda: branches, pred, *leaves, *branches.reached())
    return _tree.unflatten(branches.spec_of_result, list(found))


def cond_by_sample(
    pred: Tensor, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any
) -> Any:
    """The results of both, of which each sample of a batch takes one."""
    if pred.numel() != 1:
        raise RuntimeError(
            f"cond(): the condition of a sample is one bool, not a tensor of shape "
            f"{list(pred.shape)}; fix: reduce it with all() or any()"
        )
    leaves, form = _tree.flatten(operands)
    (first, spec), (second, other) = (
        _tree.flatten(f(*_tree.unflatten(form, [only_where(on, leaf) for leaf in leaves])))
        for f, on in ((true_fn, pred), (false_fn, pred.logical_not()))
    )
    if spec != other:
        raise ValueError(
            f"cond() inside vmap: one branch returned the structure {spec}, the other {other}"
        )
    pairs = [(tensor_of(a), tensor_of(b)) for a, b in zip(first, second, strict=True)]
    return _tree.unflatten(spec, [taken_by_sample(pred, a, b) for a, b in pairs])


def taken_by_sample(pred: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The one tensor where the condition of a sample holds, and the other elsewhere."""
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(
            f"inside vmap both of {a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)} are "
            "computed, of which each sample takes one; fix: let them have one shape and dtype"
        )
    return _core.where(pred.reshape(()).bool(), a, b)


def only_where(pred: Tensor, leaf: Any) -> Any:
    """A leaf that has a gradient for samples whose condition holds, and nothing for the others.

    What is computed for those may have no finite derivative: zero times that would be NaN.
    """
    if not isinstance(leaf, Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
        return leaf
    return _core.where(pred.reshape(()).bool(), leaf, leaf.detach())


class _RecordedBranches(Branches):
    """Two functions as steps; the second is the one that is taken where the condition holds."""

    def __init__(self, spec: _tree.Spec) -> None:
        super().__init__({}, 0)
        self._spec = spec
        self._forms: dict[bool, Any] = {}
        self._functions: dict[bool, Callable[..., Any]] = {}

    def record(self, which: bool, function: Callable[..., Any], leaves: list[Tensor]) -> Any:
        """Call one of them, and take down what it does; its result."""
        self.operands = len(leaves)
        self._functions[which] = function
        given: list[Any] = []

        def finish(result: Any) -> list[Tensor]:
            given.append(result)
            found, spec = _tree.flatten(result)
            tensors = [tensor_of(t) for t in found]
            self._forms[which] = spec, [(t.shape, t.dtype) for t in tensors]
            return Carry.own(tensors, leaves)

        def run() -> None:
            try:
                _, made = record_inside(
                    lambda: function(*_tree.unflatten(self._spec, leaves)), (), leaves, 0, finish
                )
            except Exception:  # of the branch that is not taken, maybe: it is called again
                made = Refused("it raises an error", "")
            if not isinstance(made, Refused):
                self.loops[which] = LoopRun(made, 0, 1, False, Memory(), _no_second_run)

        with DrawnNumbers() as numbers:
            _core._unrecorded(run)
        numbers.put_back()
        return given[0] if given else None

    def agree(self) -> bool:
        """Whether both could be recorded, with results of the same form."""
        return len(self.loops) == 2 and self._forms[True] == self._forms[False]

    @property
    def spec_of_result(self) -> _tree.Spec:
        """The structure of a result."""
        spec: _tree.Spec = self._forms[True][0]
        return spec

    def reached(self) -> list[Tensor]:
        """What they read by themselves: the tensors of the first, then of the second."""
        return [t for which in (False, True) for t in self.loops[which].step.reached]

    def once_more(
        self, which: bool, tensors: list[Tensor], grads: Sequence[Any], needs: Sequence[bool]
    ) -> list[Tensor | None]:
        """The gradients by way of the function itself, with a graph where gradients are on."""
        graph = _core.is_grad_enabled()
        places = distinct([k for k in self.places(which) if needs[k]], tensors)
        with enable_grad():
            operands = _tree.unflatten(self._spec, tensors[: self.operands])
            found, _ = _tree.flatten(self._functions[which](*operands))
            asked = [(t, g) for t, g in zip(found, grads, strict=True) if g is not None]
            asked = [(t, g) for t, g in asked if t.requires_grad]
            made = gradients_between(asked, [tensors[k] for k in places], graph, graph)
        result: list[Tensor | None] = [None] * len(tensors)
        for k, g in zip(places, made, strict=True):
            result[k] = g
        return result

    def have_gradients(self, needs: Sequence[bool]) -> list[bool]:
        """By result: whether that of one of them depends on what needs a gradient."""
        both = (
            self.loops[which].step.have_gradients([needs[k] for k in self.places(which)])
            for which in (False, True)
        )
        return [any(pair) for pair in zip(*both, strict=True)]


def _no_second_run(tensors: list[Tensor], carries: int, rows: int) -> list[Tensor]:
    raise NotImplementedError  # `Cond` runs the function itself


class Cond(Function):
    """What happens, or does not, by a condition: a branch, or a loop that ends by one."""

    @staticmethod
    def forward(
        ctx: Any, the_branches: Callable[[], Any], pred: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        branches = ctx.branches = the_branches()
        needs = any(ctx.needs_input_grad)
        run = RecordedForward(branches, needs)
        *results, token = _core._host_call(run, [pred, *tensors])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, token)
        results = [t.detach() for t in results]
        on = branches.have_gradients(ctx.needs_input_grad[2:])
        ctx.mark_non_differentiable(*(t for t, has in zip(results, on, strict=True) if not has))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        *tensors, token = ctx.saved_tensors
        branches = ctx.branches
        needs = ctx.needs_input_grad[2:]
        if _core.is_grad_enabled() or _core._loop_mode():
            _core._refuse_recording("the gradient of cond() is differentiated, or transformed")
            which, _ = _core._unrecorded(lambda: behind(token))
            return (None, None, *branches.once_more(which, tensors, grads, needs))
        there = [g is not None for g in grads]
        if not _core._is_recording():
            found = branches.backward(behind(token), tensors, grads, needs)
            return (None, None, *found)

        step = RecordedBackward(branches, len(tensors), there, needs)
        return (None, None, *step.record(token, tensors, grads))
