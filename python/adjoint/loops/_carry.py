"""What is handed from step to step: a structure of tensors that keeps its shapes and dtypes."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Tensor

__all__ = ["Carry", "as_argument", "in_order", "tensor_of", "without"]


def tensor_of(leaf: Any) -> Tensor:
    """A leaf of a carry, or of an output, as a tensor."""
    if isinstance(leaf, Tensor):
        return leaf
    if isinstance(leaf, bool | int | float | complex):
        return ad.tensor(leaf)
    raise TypeError(f"a loop carries and returns tensors and numbers, not {type(leaf).__name__}")


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
        t = t.detach().requires_grad_()
    return t.clone(memory_format=ad.contiguous_format)


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
        The leaves of the first carry.
    spec
        Its structure.
    """

    def __init__(self, loop: str, init: Any) -> None:
        leaves, self.spec = _tree.flatten(init)
        self._loop = loop
        self.tensors = [tensor_of(leaf) for leaf in leaves]
        # Noted here: to ask a tensor while a step is recorded is to reach it.
        self._forms = [(t.dtype, t.shape) for t in self.tensors]

    def built(self, tensors: list[Tensor]) -> Any:
        """The structure, with other leaves."""
        return _tree.unflatten(self.spec, tensors)

    def flat(self, value: Any) -> list[Tensor]:
        """The leaves of the next carry, which must be like the first."""
        leaves, spec = _tree.flatten(value)
        if spec != self.spec:
            raise ValueError(
                f"{self._loop}: a step was given a carry of the structure {self.spec} and returned "
                f"one of the structure {spec}"
            )
        return [self._checked(k, tensor_of(leaf)) for k, leaf in enumerate(leaves)]

    def _checked(self, k: int, t: Tensor) -> Tensor:
        dtype, shape = self._forms[k]
        if t.shape != shape or t.dtype != dtype:
            name = _tree.paths(self.spec, "carry")[k]
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
    return t.clone() if is_view else in_order(t)
