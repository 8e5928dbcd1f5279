"""Checkpoints without reentrant passes.

During the call, what ops save is replaced by placeholders (`_Promise`), through
``saved_tensors_hooks``. When backward asks for the first of them, the function runs again and its
k-th saved tensor goes to the k-th promise. Values belong to one backward pass and go away as they
are used.

A frame keeps the inputs of its call as a graph node keeps its operands (``_core._keep_tensors``):
they pass through the hooks that are active outside. So the inputs of a checkpoint inside another
one are promises of the outer one, and nesting saves memory at each level.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from adjoint import _core, _tree
from adjoint._apart import call_apart
from adjoint._core import Tensor
from adjoint._recording import CheckpointedCalls, checkpointed
from adjoint._surroundings import Surroundings
from adjoint._transforming import maps_under_way
from adjoint.autograd.forward_ad import unpack_dual
from adjoint.autograd.grad_mode import enable_grad
from adjoint.autograd.graph import saved_tensors_hooks

from . import _rng

_FOLDER = __file__.rpartition("utils")[0]
_outside = itertools.count(-2, -1)  # numbers for values asked for outside a backward pass


class CheckpointError(RuntimeError):
    """A recomputation did not give what the checkpointed call had saved."""


class _StopRecomputation(BaseException):
    """All values are there: the rest of the function need not run."""


METADATA_CHECKS: dict[str, Callable[[Tensor], Any]] = {
    "default": lambda t: {"shape": tuple(t.shape), "dtype": t.dtype, "device": t.device},
    "none": lambda t: None,
}

_early_stop = True
_debug: bool | None = None


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Generator[None]:
    """Whether recomputations of the checkpoints made in this context end at the last needed value.

    Parameters
    ----------
    enable
        False lets the whole function run again.

    Examples
    --------
    >>> from adjoint.utils.checkpoint import set_checkpoint_early_stop
    >>> with set_checkpoint_early_stop(False):
    ...     pass
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Generator[None]:
    """Override the argument ``debug`` of the checkpoints made in this context; None: do not."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


def _user_line() -> str:
    """The innermost line that is not part of adjoint."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


@contextmanager
def _watched(calls: CheckpointedCalls) -> Generator[None]:
    """Let compiled functions know that they are inside a checkpoint."""
    token = checkpointed.set(calls)
    try:
        yield
    finally:
        checkpointed.reset(token)


class _Promise:
    """Stands for a saved tensor. ``values``: the tensor itself, by backward pass."""

    __slots__ = ("__weakref__", "frame", "values")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.values: dict[int, Tensor] = {}


class _Run:
    """One recomputation: how far it got and what it saved."""

    def __init__(self) -> None:
        self.count = 0
        self.metadata: list[Any] = []
        self.lines: list[str] = []


class Frame:
    """One checkpointed call."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        recompute_context: AbstractContextManager[Any],
        *,
        preserve_rng_state: bool,
        early_stop: bool,
        metadata_of: Callable[[Tensor], Any],
        debug: bool,
    ) -> None:
        self.function = function
        arguments: Any = (args, kwargs)
        leaves, self.structure = _tree.flatten(arguments)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        self.leaves = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self.inputs = _core._keep_tensors(tuple(tensors)) if _core.is_grad_enabled() else None
        self.call_arguments: Any = (args, kwargs)  # dropped after the call
        self.recompute_context = recompute_context
        self.rng_state = _rng.current(preserve_rng_state)
        self.surroundings = Surroundings()
        self.maps = maps_under_way()
        self.early_stop = early_stop and _early_stop
        self.metadata_of = metadata_of
        self.debug = debug if _debug is None else _debug
        self.promises: list[weakref.ref[_Promise]] = []
        self.metadata: list[Any] = []
        self.lines: list[str] = []
        self.finished = False  # the call itself
        self.extra_is_fine = False
        self.passes: set[int] = set()
        self.ways: list[Any] = []  # of compiled functions

    def call(self, context: AbstractContextManager[Any]) -> Any:
        """Run the function for the first time."""
        args, kwargs = self.call_arguments
        self.call_arguments = None
        if self.inputs is None:  # nothing is recorded, so nothing will be asked for
            with context:
                return self.function(*args, **kwargs)
        calls = CheckpointedCalls(self._promise)
        self.ways = calls.ways
        with saved_tensors_hooks(calls.pack, _keep_promise), _watched(calls), context:
            result = self.function(*args, **kwargs)
        self.finished = True
        return result

    def _promise(self, tensor: Tensor) -> _Promise:
        if unpack_dual(tensor).tangent is not None:
            raise RuntimeError(
                "checkpoint: a value saved for backward carries a tangent of forward mode (as in "
                "func.hessian or func.hvp), which the second run would lose.\n"
                "  fix: use func.jacrev(func.jacrev(f)), or leave the checkpoint out"
            )
        promise = _Promise(self)
        self.promises.append(weakref.ref(promise))
        self.metadata.append(self.metadata_of(tensor))
        if self.debug:
            self.lines.append(_user_line())
        return promise

    def value(self, promise: _Promise) -> Tensor:
        """The tensor that a promise stands for."""
        number = _core._current_graph_task_id()
        inside = number >= 0
        if not inside:
            number = next(_outside)
        if number not in self.passes:
            self.passes.add(number)
            run = _Run()
            self._run_again(number, run)
            self._check(run)
        if number not in promise.values:
            raise CheckpointError(
                "Unpack is being triggered for a tensor that was already unpacked once. If you are "
                "calling ctx.saved_tensors in backward, make sure to do so only once."
            )
        value = promise.values.pop(number)
        if not inside:  # nobody else will ask under this number
            self._forget(number)
        return value

    def _forget(self, number: int) -> None:
        self.passes.discard(number)
        for ref in self.promises:
            promise = ref()
            if promise is not None:
                promise.values.pop(number, None)

    def _run_again(self, number: int, run: _Run) -> None:
        """Recompute under the maps of the call, whichever are open where a value is asked for."""
        more = maps_under_way() > self.maps
        if not more:
            self._recompute(number, run)
        elif not self.maps:
            call_apart(self._recompute, (number, run))
        else:
            raise RuntimeError(
                "checkpoint: inside vmap, the checkpointed function takes a derivative inside "
                "another vmap, where it cannot run again.\n"
                "  fix: put the checkpoint around what is differentiated there, or leave it out"
            )

    def _recompute(self, number: int, run: _Run) -> None:
        leaves = list(self.leaves)
        assert self.inputs is not None
        tensors = _core._kept_tensors(self.inputs)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments: Any = _tree.unflatten(self.structure, leaves)
        args, kwargs = arguments

        def pack(tensor: Tensor) -> Tensor:
            return self._deliver(number, run, tensor)

        try:
            with _rng.as_it_was(self.rng_state), self.surroundings.again():
                # What the function itself differentiates inside works on this second graph.
                hooks = saved_tensors_hooks(pack, lambda tensor: tensor)
                calls = _watched(CheckpointedCalls(pack, self.ways))
                with enable_grad(), hooks, calls, self.recompute_context:
                    self.function(*args, **kwargs)
        except _StopRecomputation:
            pass

    def _deliver(self, number: int, run: _Run, tensor: Tensor) -> Tensor:
        value = tensor.detach() if tensor.requires_grad else tensor
        k = run.count
        run.count += 1
        if k >= len(self.promises):
            if self.finished:
                raise CheckpointError(
                    "adjoint.utils.checkpoint: trying to save more tensors during recomputation "
                    f"than during the original forward pass ({len(self.promises)})."
                )
            # The function ran a backward pass of its own half-way: what follows was not saved yet.
            self.extra_is_fine = True
            return value
        run.metadata.append(self.metadata_of(tensor))
        if self.debug:
            run.lines.append(_user_line())
        promise = self.promises[k]()
        if promise is not None:
            promise.values[number] = value
        if self.early_stop and run.count == len(self.promises):
            raise _StopRecomputation
        return value

    def _check(self, run: _Run) -> None:
        if self.extra_is_fine:
            return
        if run.count != len(self.promises):
            raise CheckpointError(
                "adjoint.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.promises)}\n"
                f"Number of tensors saved during recomputation: {run.count}.\n" + self._hint(run)
            )
        wrong = [
            f"tensor at position {k}:\nsaved metadata: {a}\nrecomputed metadata: {b}"
            for k, (a, b) in enumerate(zip(self.metadata, run.metadata, strict=True))
            if a != b
        ]
        if wrong:
            raise CheckpointError(
                "adjoint.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than during the forward pass.\n"
                + "\n".join(wrong)
                + "\n"
                + self._hint(run)
            )

    def _hint(self, run: _Run) -> str:
        if not self.debug:
            return (
                "The function computed something else when it was called again. Does it depend on "
                "a global, on a counter, or on random numbers of its own?\n"
                "  fix: make it deterministic; pass debug=True to see which line saved each value"
            )
        rows = itertools.zip_longest(self.lines, run.lines, fillvalue="-")
        table = "\n".join(
            f"  {k}: forward    {a}\n     recomputed {b}" for k, (a, b) in enumerate(rows)
        )
        return (
            "You are seeing this error because you passed `debug=True` to checkpoint and tensors "
            "to be saved during the original forward and differ between those saved during "
            f"recomputation. The lines that saved each value:\n{table}"
        )


def _keep_promise(promise: _Promise) -> Tensor:
    return promise.frame.value(promise)
