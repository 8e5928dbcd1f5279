"""Which tensors of a structure a transform works on: `TensorLeaves`.

Everything else in a structure (names, numbers, callables, None; integer and boolean tensors) is
carried along: the function gets it as it is, results hold it in its place, and where two structures
must agree it is compared. A bare argument or result that is not a tensor is refused, as in
PyTorch. Read next: ``_arguments.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _tree
from adjoint._core import Tensor
from adjoint.composite._functions import can_have_gradient
from adjoint.composite._structure import Structure, _refuse_hidden, hides_tensors, same

__all__ = ["TensorLeaves", "differentiable_outputs", "tensor_inputs", "tensor_outputs"]


class TensorLeaves:
    """Where the tensors stand in a structure that a transform works on, and what else is in it."""

    __slots__ = ("_at", "_every", "_roots", "spec")

    def __init__(
        self,
        spec: _tree.Spec,
        every: list[Any],
        at: list[int] | None,
        roots: Callable[[], list[str] | str],
    ) -> None:
        self.spec = spec
        self._every = every  # all leaves
        self._at = at  # the places among them; None for all
        self._roots = roots  # what messages call the structure, or each part of a tuple

    @property
    def tensors(self) -> list[Any]:
        """The tensors that the transform works on."""
        return self._every if self._at is None else [self._every[i] for i in self._at]

    def filled(self, values: Sequence[Any]) -> Any:
        """The structure with other tensors, and the rest as it is."""
        if self._at is None:
            return _tree.unflatten(self.spec, values)
        leaves = self._every.copy()
        for i, value in zip(self._at, values, strict=True):
            leaves[i] = value
        return _tree.unflatten(self.spec, leaves)

    def gradient(self, values: Sequence[Any]) -> Any:
        """The structure with a derivative for each tensor; None for those that have none."""
        if self._at is None:
            return _tree.unflatten(self.spec, values)
        leaves = [None if isinstance(x, Tensor) else x for x in self._every]
        for i, value in zip(self._at, values, strict=True):
            leaves[i] = value
        return _tree.unflatten(self.spec, leaves)

    def paths(self, root: str | None = None) -> list[str]:
        """Where each of the tensors stands, as Python would write it: ``state.mass``."""
        every = self._every_path() if root is None else _tree.paths(self.spec, root)
        return every if self._at is None else [every[i] for i in self._at]

    def _every_path(self) -> list[str]:
        roots = self._roots()
        if isinstance(roots, str):
            return _tree.paths(self.spec, roots)
        found: list[str] = []
        for part, root in zip(self.spec.children(), roots, strict=True):
            found += _tree.paths(part, root)
        return found

    def like(self, leaves: list[Any], name: str) -> list[Any]:
        """What another structure has in these places; the rest of it must agree."""
        if self._at is None:
            return leaves
        wanted = set(self._at)
        for i, (ours, theirs) in enumerate(zip(self._every, leaves, strict=True)):
            if i in wanted or isinstance(ours, Tensor) or same(ours, theirs):
                continue
            raise RuntimeError(
                f"{name}: {self._every_path()[i]}: expected {_tree.kind_of(ours)}, got "
                f"{_tree.kind_of(theirs)}.\n"
                "  fix: what is not a tensor must be the same on both sides"
            )
        return [leaves[i] for i in self._at]


def _is_wanted(x: Any) -> bool:
    return isinstance(x, Tensor) and can_have_gradient(x)


def _bare(spec: _tree.Spec, several: bool) -> list[bool]:
    """For each leaf, whether it is an argument or a result by itself."""
    if not several:
        return [spec.is_leaf()] * spec.num_leaves
    return [part.is_leaf() for part in spec.children() for _ in range(part.num_leaves)]


def _root(tree: Any, name: str) -> str:
    return _tree.root_name(tree, name) if _tree.is_structure(tree) else name


def tensor_inputs(tree: Any, name: str, argument: Sequence[str], several: bool) -> TensorLeaves:
    """The tensors to differentiate by in an argument, or in a tuple of ``several``.

    ``argument`` is what messages call each of them.

    Raises
    ------
    ValueError
        An argument is neither a tensor nor a structure, or there is no tensor to differentiate by.
    TypeError
        A tensor that requires grad is hidden in an object that is not a structure.
    """

    def roots() -> list[str] | str:
        if not several:
            return _root(tree, argument[0])
        return list(map(_root, tree, argument))

    leaves, spec = _tree.flatten(tree)
    if all(map(_is_wanted, leaves)):
        return TensorLeaves(spec, leaves, None, roots)
    bare = _bare(spec, several)
    # An integer tensor that is an argument by itself is refused by whoever differentiates.
    at = [i for i, x in enumerate(leaves) if _is_wanted(x) or (bare[i] and isinstance(x, Tensor))]
    selected = TensorLeaves(spec, leaves, at, roots)
    for i, x in enumerate(leaves):
        if bare[i] and not isinstance(x, Tensor):
            raise ValueError(
                f"{name}: expected tensors, but got {type(x).__name__}: {x!r} for "
                f"{selected._every_path()[i]}.\n  fix: {_fix(x)}"
            )
    rest = [None if isinstance(x, Tensor) else x for x in leaves]
    root = "args" if several else _root(tree, argument[0])
    _refuse_hidden(Structure(spec, rest, at, root), name)
    if leaves and not at:
        listed = ", ".join(
            f"{path} ({_tree.kind_of(x) if not isinstance(x, Tensor) else x.dtype})"
            for path, x in list(zip(selected._every_path(), leaves, strict=True))[:5]
        )
        raise ValueError(
            f"{name}: expected tensors, but there is none of floating point or complex dtype to "
            f"differentiate by: {listed}.\n"
            "  fix: make what you differentiate by a tensor: adjoint.tensor(...)"
        )
    return selected


def _fix(x: Any) -> str:
    if hides_tensors(x):
        return f"decorate class {type(x).__name__} with @adjoint.composite"
    if isinstance(x, int | float | complex) or hasattr(x, "__array__"):
        return "pass adjoint.tensor(...) of it, or do not differentiate by this argument"
    return "do not differentiate by this argument: use argnums=, or a lambda that holds it"


def tensor_outputs(output: Any, name: str) -> TensorLeaves:
    """The tensors of a result; a plain tuple or list holds several results.

    Raises
    ------
    RuntimeError
        There is no result, or one that is neither a tensor nor a structure of tensors.
    """
    leaves, spec = _tree.flatten(output)
    if output is None or not leaves:
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output (got output = {output})"
        )

    def root() -> str:
        return _root(output, "output")

    if all(isinstance(x, Tensor) for x in leaves):
        return TensorLeaves(spec, leaves, None, root)
    at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    selected = TensorLeaves(spec, leaves, at, root)
    bare = _bare(spec, type(output) in (tuple, list))
    for i, x in enumerate(leaves):
        if not isinstance(x, Tensor) and (bare[i] or not at):
            raise RuntimeError(
                f"{name}: expected f(*primals) to return only tensors, but its result holds "
                f"{type(x).__name__}: {x!r} ({selected._every_path()[i]}).\n"
                "  fix: return tensors or structures that hold some; anything else as aux, with "
                "has_aux=True"
            )
    return selected


def differentiable_outputs(output: Any, name: str) -> TensorLeaves:
    """The tensors of a result that cotangents can be given for.

    An integer or boolean tensor that is a result by itself is refused, as in PyTorch: zeros for its
    derivative would hide that it has none. Inside a structure it is carried along.

    Raises
    ------
    RuntimeError
        As `tensor_outputs`, or there is a result, or nothing but results, of such a dtype.
    """
    selected = tensor_outputs(output, name)
    tensors = selected.tensors
    if all(map(can_have_gradient, tensors)):
        return selected
    bare = _bare(selected.spec, type(output) in (tuple, list))
    at = range(len(selected._every)) if selected._at is None else selected._at
    kept = [i for i in at if can_have_gradient(selected._every[i])]
    for i, path in zip(at, selected.paths(), strict=True):
        x = selected._every[i]
        if not can_have_gradient(x) and (bare[i] or not kept):
            raise RuntimeError(
                f"{name}: All outputs of f must be floating-point or complex Tensors, got Tensor "
                f"with dtype {x.dtype} ({path}): it has no derivative.\n"
                "  fix: return it as aux, with has_aux=True, or compute it in a floating dtype"
            )
    return TensorLeaves(selected.spec, selected._every, kept, selected._roots)
