"""What is handed from step to step: a structure of tensors that keeps its shapes and dtypes."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Tensor

__all__ = ["Carry", "as_argument", "as_variable", "in_order", "tensor_of", "without"]


_NUMBERS = (bool, int, float, complex)


def tensor_of(leaf: Any) -> Tensor:
    """A leaf of a carry, or of an output, as a tensor."""
    if isinstance(leaf, Tensor):
        return leaf
    if isinstance(leaf, _NUMBERS):
        return ad.tensor(leaf)
    name = type(leaf).__name__
    fix = ""
    if type(leaf).__module__ != "builtins":
        fix = f"; fix: make {name} a composite (@adjoint.composite), or hand over its tensors"
    raise TypeError(f"a loop carries and returns tensors and numbers, not {name}{fix}")


def in_order(t: Tensor) -> Tensor:
    """The tensor in memory as steps are recorded with it: without gaps, without pending signs."""
    t = t.resolve_conj().resolve_neg().contiguous()
    # An axis of one element may have any stride; that of a program's input is the usual one.
    if 1 in t.shape and t.stride() != _usual_strides(t.shape):
        return t.clone(memory_format=ad.contiguous_format)
    return t


def _usual_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def as_argument(t: Tensor) -> Tensor:
    """A carry as it is inside the loop: it gets a gradient as soon as anything has one.

    It is a copy, and not a leaf: a step may change it, and may also read the first carry by itself,
    which is another tensor in all steps but the first.
    """
    differentiable = t.is_floating_point() or t.is_complex()
    if differentiable and _core.is_grad_enabled() and not t.requires_grad:
        # A sample of a vmap cannot be a leaf; a variable of its transform stands in for it.
        inside = _core._batch_level((t,))
        t = _core._variable(t, False) if inside else t.detach().requires_grad_()
    return t.clone(memory_format=ad.contiguous_format)


def as_variable(t: Tensor) -> Tensor:
    """A carry that needs a gradient or does not, in every step."""
    return (t if t.requires_grad else t.detach()).clone(memory_format=ad.contiguous_format)


def without(stand_ins: list[Tensor], results: list[Tensor]) -> list[Tensor]:
    """Results of a step, without the history of those that depend on nothing but stand-ins.

    Where the first carry needs no gradient a stand-in has been given one (`as_argument`): what the
    step computed from it alone must not require grad in a loop that goes on as Python.
    """
    return [t if _depends_on_others(t, stand_ins) else t.detach() for t in results]


def _depends_on_others(t: Tensor, stand_ins: list[Tensor]) -> bool:
    if t.grad_fn is None:
        return True
    nodes, seen = [t.grad_fn], {t.grad_fn}
    known = {id(_leaf_of(s)) for s in stand_ins if s.grad_fn is not None}
    while nodes:
        node = nodes.pop()
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) not in known:
            return True
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return False


def _leaf_of(stand_in: Tensor) -> Any:
    node: Any = stand_in.grad_fn
    while node.next_functions:  # a step that changed it in place has put others on top
        node = node.next_functions[0][0]
    return node.variable


class Carry:
    """The form of a carry, from the first one.

    Attributes
    ----------
    tensors
        The leaves of the first carry; a text or None among them stays what it is.
    spec
        Its structure.
    """

    def __init__(self, loop: str, init: Any) -> None:
        leaves, self.spec = _tree.flatten(init)
        self._loop = loop
        self._fixed = {
            k: leaf
            for k, leaf in enumerate(leaves)
            if leaf is None or (isinstance(leaf, str) and leaf is not init)
        }
        self._size = len(leaves)
        self.tensors = [tensor_of(t) for k, t in enumerate(leaves) if k not in self._fixed]
        # Noted here: to ask a tensor while a step is recorded is to reach it.
        self._forms = [(t.dtype, t.shape) for t in self.tensors]
        self._versions = _core._unrecorded(self._history_versions)

    def built(self, tensors: list[Tensor]) -> Any:
        """The structure, with other leaves."""
        if not self._fixed:
            return _tree.unflatten(self.spec, tensors)
        there = iter(tensors)
        leaves = [self._fixed[k] if k in self._fixed else next(there) for k in range(self._size)]
        return _tree.unflatten(self.spec, leaves)

    def first(self) -> list[Tensor]:
        """The leaves of the first carry for a step as Python, which may change them.

        They are copies, as those that a recorded step is given. One with a history is not: a copy
        would add up its gradient in another order. A step must not change it (`check_first`).
        """
        history = _core.is_grad_enabled()
        return [t if history and t.requires_grad else t.clone() for t in self.tensors]

    def _history_versions(self) -> list[int]:
        return [t._version for t in self.tensors if t.requires_grad]

    def check_first(self) -> None:
        """Refuse a first carry that the step has changed."""
        if _core._unrecorded(self._history_versions) != self._versions:
            raise RuntimeError(
                f"{self._loop}: the step has changed the first carry, which requires grad, in "
                "place; fix: return the new value, or start with init.clone()"
            )

    def leaves(self, value: Any) -> list[Any]:
        """Those of what a step returned as the next carry, of the same structure."""
        leaves, spec = _tree.flatten(value)
        if spec != self.spec:
            raise ValueError(
                f"{self._loop}: a step was given a carry of the structure {self.spec} and returned "
                f"one of the structure {spec}"
            )
        for k, leaf in enumerate(leaves):
            if k not in self._fixed and not isinstance(leaf, (Tensor, *_NUMBERS)):
                tensor_of(leaf)  # which says what it is
        return leaves

    def flat(self, value: Any) -> list[Tensor]:
        """The leaves of the next carry, which must be like the first."""
        leaves = self.leaves(value)
        for k, was in self._fixed.items():
            if leaves[k] is not was and leaves[k] != was:
                raise ValueError(
                    f"{self._loop}: a step was given {self._name(k)} as {was!r} and returned "
                    f"{leaves[k]!r}: a text or None in a carry stays what it is"
                )
        own = [leaf for k, leaf in enumerate(leaves) if k not in self._fixed]
        return [self._checked(k, tensor_of(leaf)) for k, leaf in enumerate(own)]

    def _name(self, leaf: int) -> str:
        return _tree.paths(self.spec, "carry")[leaf]

    def _checked(self, k: int, t: Tensor) -> Tensor:
        dtype, shape = self._forms[k]
        if t.shape != shape or t.dtype != dtype:
            name = self._name([i for i in range(self._size) if i not in self._fixed][k])
            raise ValueError(
                f"{self._loop}: a step was given {name} as {dtype} {list(shape)} and "
                f"returned it as {t.dtype} {list(t.shape)}; fix: start with the shape and dtype "
                "that the step makes of it"
            )
        return t

    @staticmethod
    def own(results: list[Tensor], arguments: list[Tensor]) -> list[Tensor]:
        """Results of a step that is recorded: those that share memory become tensors of their own.

        An argument that is handed on stays what it is.
        """
        known = {id(t) for t in arguments}
        return [t if id(t) in known else _own(t) for t in results]


def _own(t: Tensor) -> Tensor:
    is_view = _core._unrecorded(t._is_view)
    t = in_order(t)
    return t.clone() if is_view and _core._unrecorded(t._is_view) else t
