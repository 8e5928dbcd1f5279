"""One call of an external: its arguments, its evaluation, and its derivatives once asked for.

Read next: _derivatives.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any
from weakref import getweakrefcount

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor import creation as _creation

from ._arguments import Arguments, as_array
from ._definition import Definition
from ._derivatives import Derivatives
from ._outputs import PLAIN, Outputs, owned, tensor_dtype

__all__ = ["Call", "TensorCall"]


class Call:
    """What a node of the graph keeps of a call.

    It can be called, since `Function.apply` searches other objects for hidden tensors.
    """

    __slots__ = (
        "arguments",
        "axes",
        "definition",
        "evaluation",
        "found",
        "leaves",
        "outputs",
        "places",
        "ready",
    )

    def __init__(
        self, definition: Definition, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.definition = definition
        self.arguments = Arguments(args, kwargs, definition.static)
        self.leaves: list[Any] = self.arguments.leaves
        # The leaves that are tensors and inputs: the graph sees these, and only these.
        self.places = [k for k in self.arguments.inputs if isinstance(self.leaves[k], Tensor)]
        self.outputs: Any = None
        self.found: Any = None
        self.ready: list[Any] = []  # the result, once it was evaluated elsewhere
        self.evaluation: Any = None  # in a recording: the host call (_host_calls.py)
        self.axes: tuple[int, ...] = ()  # of samples, in front: of a function with batched=

    def tensors(self) -> list[Tensor]:
        """The inputs that the graph sees; they are no longer kept here."""
        found = [self.leaves[k] for k in self.places]
        for k in self.places:
            self.leaves[k] = None
        return found

    def given(self, tensors: Sequence[Any], copy: bool) -> list[Any]:
        """The leaves as the function takes them; ``copy`` those that the caller may change."""
        leaves = list(self.leaves)
        for k, tensor in zip(self.places, tensors, strict=True):
            array = as_array(tensor)
            leaves[k] = array if array.ndim else array[()]
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, Tensor):
                if _core._batch_level((leaf,)) > 0:
                    self._refuse_batch(k, leaf)
                leaves[k] = as_array(leaf)
                leaves[k] = self.leaves[k] = self._kept(k, leaves[k]) if copy else leaves[k]
            elif copy and isinstance(leaf, np.ndarray) and k not in self.places:
                leaves[k] = self.leaves[k] = self._kept(k, leaf)
        return leaves

    def _kept(self, k: int, array: Any) -> Any:
        """A copy for the derivatives, which the function must not change unless it is static."""
        array = array.copy()
        array.flags.writeable = k in self.arguments.static
        return array

    def _refuse_batch(self, k: int, leaf: Tensor) -> None:
        name, of = self.arguments.names()[k], self.definition.name
        kind = "a static argument" if k in self.arguments.static else f"a tensor of {leaf.dtype}"
        raise RuntimeError(
            f"vmap over {name} of the external {of}, {kind}: only floating-point arguments that "
            "are not static are mapped over, others are handed on as they are.\n"
            f"  fix: pass {name} as floats and convert it in the function (x.astype(int)), or "
            f"leave it out of the batch (in_dims=None), or loop over it and stack the results"
        )

    def run(self, tensors: Sequence[Tensor], copy: bool) -> list[Tensor]:
        """Evaluate the function; its numbers as tensors."""
        args, kwargs = self.arguments.rebuild(self.given(tensors, copy))
        raw = [self.ready.pop() if self.ready else self.definition.evaluator.one(args, kwargs)]
        return self.keep(raw, tensors)

    def keep(self, raw: list[Any], tensors: Sequence[Tensor]) -> list[Tensor]:
        """A result, in a box, as tensors; its form is kept."""
        definition = self.definition
        self.outputs = Outputs(raw, definition.nondifferentiable, definition.name)
        made: list[Tensor] = self.outputs.tensors(tensor_dtype([t.dtype for t in tensors]))
        self.outputs.let_go()
        return made

    def __call__(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Sequence[Tensor]]:
        """The outputs, and those among them that have no derivative."""
        made = self.run(tensors, True)
        return made, self.fixed(made)

    def fixed(self, made: Sequence[Tensor]) -> list[Tensor]:
        """The outputs that have no derivative."""
        numeric = self.outputs.numeric()
        fine = set(self.outputs.differentiable)
        return [t for k, t in zip(numeric, made, strict=True) if k not in fine]

    def rebuild(self, tensors: Sequence[Tensor]) -> Any:
        """The result of the function with tensors in the place of its numbers."""
        return self.outputs.rebuild(tensors)

    def filled(self, tensors: Sequence[Tensor]) -> Outputs:
        """The form of the result with the values of its tensors."""
        outputs: Outputs = self.outputs.filled(tensors)
        return outputs

    def derivatives(self, saved: Sequence[Tensor], wanted: Sequence[bool]) -> Derivatives:
        """The derivatives at this call, made once and kept."""
        key = tuple(wanted)
        if self.found is None or self.found[0] != key:
            count = len(self.places)
            leaves = self.given(saved[:count], False)
            places = [k for k, w in zip(self.places, wanted, strict=True) if w]
            outputs = self.filled(saved[count:])
            tensors = [t for t, w in zip(saved, wanted, strict=False) if w]
            self.found = (
                key,
                Derivatives(
                    self.definition,
                    self.arguments,
                    leaves,
                    places,
                    outputs,
                    tensors,
                    saved[count:],
                    self.axes,
                ),
            )
        found: Derivatives = self.found[1]
        return found

    def recorded_vjp(self, saved: Sequence[Tensor], grads: Sequence[Any]) -> list[Any] | None:
        """A vjp written with tensors runs on tensors, and is recorded like everything else."""
        rules = self.definition.given
        if rules.vjp is None or not rules.tensors:
            return None
        count = len(self.places)
        leaves = list(self.leaves)
        for k, tensor in zip(self.places, saved[:count], strict=True):
            leaves[k] = tensor
        args, kwargs = self.arguments.rebuild(leaves)
        given = [
            _core.zeros_like(out) if grad is None else grad
            for out, grad in zip(saved[count:], grads, strict=True)
        ]
        output = self.outputs.rebuild(list(saved[count:]))
        raw = rules.call_vjp(self.outputs.rebuild(given), args, kwargs, output)
        found = rules.per_leaf(raw, self.arguments)
        return [found[k] for k in self.places]

    def batch(self, size: int, in_dims: Any, inputs: Sequence[Tensor]) -> Any:
        """The call on a batch, for vmap."""
        moved = [t if d is None else t.movedim(d, 0) for t, d in zip(inputs, in_dims, strict=True)]
        if self.definition.batched:
            whole = [
                t.unsqueeze(0).expand(size, *t.shape) if d is None else t
                for t, d in zip(moved, in_dims, strict=True)
            ]
            again = self.again(whole, axes=(size, *self.axes))
            return again, (0,) * len(again)
        samples = [
            [t if d is None else t[i] for t, d in zip(moved, in_dims, strict=True)]
            for i in range(size)
        ]
        results = self.together(samples)
        rows, first = [], None
        for k, (picked, box) in enumerate(zip(samples, results, strict=True)):
            rows.append(self.again(picked, *box))
            if isinstance(self.outputs, Outputs):
                first = first or self.outputs
                first.refuse_other(self.outputs, k)
        outputs = tuple(_core.stack(list(column)) for column in zip(*rows, strict=True))
        return outputs, (0,) * len(outputs)

    def together(self, samples: list[list[Tensor]]) -> list[list[Any]]:
        """The results of the samples of a batch, from the workers; empty boxes without them."""
        evaluator = self.definition.evaluator
        # Samples of one vmap inside another have no values yet: the outer one sends its samples.
        hidden = any(_core._batch_level(tuple(s)) > 0 for s in samples[:1])
        if evaluator.workers.serial or hidden:
            return [[] for _ in samples]
        points = (
            (*self.arguments.rebuild(self.given(sample, False)), f"sample {i} of the batch".format)
            for i, sample in enumerate(samples)
        )
        return [[raw] for raw in evaluator.many(points, len(samples))]

    def again(
        self, tensors: Sequence[Tensor], *result: Any, axes: tuple[int, ...] = ()
    ) -> tuple[Tensor, ...]:
        """The call with other inputs, as a node of its own; perhaps evaluated already."""
        from ._function import ExternalFunction

        other: Call = object.__new__(type(self))
        other.definition, other.arguments = self.definition, self.arguments
        other.leaves, other.places = list(self.leaves), self.places
        other.outputs = other.found = other.evaluation = None
        other.ready, other.axes = list(result), axes
        made: tuple[Tensor, ...] = ExternalFunction.apply(other, *tensors)
        self.outputs = other.outputs
        return made


_NONE: list[Any] = []
_NUMBERS = (float, np.float64, np.float32)


class TensorCall(Call):
    """A call on floating tensors alone, as nearly all are: no structure is looked into.

    ``outputs`` is None after a result of one array, a count after a tuple of arrays, a number after
    a number; the form of any other result, as in `Call`.
    """

    __slots__ = ()

    def __init__(self, definition: Definition, tensors: Sequence[Tensor]) -> None:
        self.definition = definition
        self.arguments = definition.prepared(len(tensors))
        self.leaves, self.places = self.arguments.leaves, self.arguments.inputs
        self.outputs = self.found = self.evaluation = None
        self.ready, self.axes = _NONE, ()

    def __call__(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Sequence[Tensor]]:
        """The outputs, and those among them that have no derivative."""
        if self.ready:
            made = self.keep([self.ready.pop()], tensors)
            return made, self.fixed(made)
        raw = self.definition.evaluator.direct([_given(tensor) for tensor in tensors])
        if type(raw) is np.ndarray and raw.dtype in PLAIN and raw.ndim:
            box = [raw]
            del raw  # how often a variable counts depends on the version of Python; a list, once
            # Asked first: .flags holds the array too. See _outputs.owned.
            alone = sys.getrefcount(box[0]) == 2
            flags = box[0].flags
            new = alone and flags.owndata and flags.writeable and not getweakrefcount(box[0])
            return [_core._from_buffer(box[0] if new else box[0].copy())], ()
        if type(raw) in _NUMBERS:
            self.outputs = raw
            dtype = tensor_dtype([t.dtype for t in tensors]) if type(raw) is float else None
            return [_creation.tensor(raw, dtype=dtype)], ()
        if type(raw) is tuple and all(_is_plain(item) for item in raw):
            items, self.outputs = list(raw), len(raw)
            del raw  # else nothing in it would be held by the list alone
            return [_core._from_buffer(array) for array in owned(items)], ()
        made = self.keep([raw], tensors)
        return made, self.fixed(made)

    def rebuild(self, tensors: Any) -> Any:
        """The result of the function with tensors in the place of its numbers."""
        if isinstance(self.outputs, Outputs):
            return self.outputs.rebuild(tensors)
        return tuple(tensors) if type(self.outputs) is int else tensors[0]

    def filled(self, tensors: Sequence[Tensor]) -> Outputs:
        """The form of the result with the values of its tensors."""
        if isinstance(self.outputs, Outputs):
            return self.outputs.filled(tensors)
        several = type(self.outputs) is int
        kept = self.outputs is not None and not several
        leaves = [np.asarray(self.outputs)] if kept else [as_array(t) for t in tensors]
        return Outputs.of_arrays(leaves, several, self.definition.name)


def _given(tensor: Tensor) -> Any:
    array = as_array(tensor)
    return array if array.ndim else array[()]


def _is_plain(item: Any) -> bool:
    return type(item) is np.ndarray and item.dtype in PLAIN and item.ndim > 0
