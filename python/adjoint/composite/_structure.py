"""A composite as its tensors and the rest of it: `take_apart`, `put_together`, agreement.

The tensors of a composite are what is differentiated; everything else in it (names, numbers,
callables) stays in the `Structure` and is compared where two composites must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from adjoint import _tree
from adjoint._core import Tensor

__all__ = ["Structure", "apply", "put_together", "same", "take_apart"]

T = TypeVar("T")


class Structure(Generic[T]):
    """What `adjoint.flatten` found beside the tensors; `adjoint.unflatten` rebuilds from it.

    Two structures are equal if they are built from the same containers and hold the same
    values beside their tensors.
    """

    __slots__ = ("flat", "leaves", "places", "root", "spec")

    def __init__(
        self,
        spec: _tree.Spec,
        leaves: list[Any] | None,
        places: list[int] | None,
        root: str,
        flat: _tree.Flat | None = None,
    ) -> None:
        self.spec = spec
        self.flat = flat  # a short way to rebuild it
        self.leaves = leaves  # with None for the tensors; None if there are only tensors
        self.places = places  # of the tensors among the leaves; None if there are only tensors
        self.root = root  # what messages call the composite

    @property
    def num_tensors(self) -> int:
        """How many tensors it takes to rebuild the composite."""
        return self.spec.num_leaves if self.places is None else len(self.places)

    def paths(self, root: str | None = None) -> list[str]:
        """Where each tensor stands, as Python would write it: ``state.bodies[3].velocity``."""
        every = _tree.paths(self.spec, self.root if root is None else root)
        return every if self.places is None else [every[i] for i in self.places]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return NotImplemented
        return self.spec == other.spec and self.places == other.places and self._same_rest(other)

    def _same_rest(self, other: Structure[Any]) -> bool:
        if self.leaves is None or other.leaves is None:
            return self.leaves is other.leaves
        return all(map(same, self.leaves, other.leaves))

    def __hash__(self) -> int:
        return hash(self.spec)

    def __repr__(self) -> str:
        from ._printing import printed

        return printed(put_together(self, [_SLOT] * self.num_tensors), title="Structure of a ")


class _Slot:
    """Stands for a tensor when a structure is printed."""

    def __repr__(self) -> str:
        return "tensor"


_SLOT = _Slot()


def take_apart(
    tree: Any, function: str, root: str = "composite"
) -> tuple[list[Tensor], Structure[Any]]:
    """The tensors of a composite, and the rest of it; ``function`` is named in refusals.

    ``root`` is what messages call it if its class has no name of its own.

    Raises
    ------
    TypeError
        ``tree`` is neither a tensor nor a structure, or a structure of other things only, or
        hides a tensor that requires grad in an object that is not a structure.
    """
    short = _tree.flat_object(tree)
    if short is not None:
        return list(short[0]), Structure(short[1].spec, None, None, short[1].root, short[1])
    leaves, spec = _tree.flatten(tree)
    root = _tree.root_name(tree, root)
    others = [kind for kind in set(map(type, leaves)) if not issubclass(kind, Tensor)]
    if not others:
        return leaves, Structure(spec, None, None, root)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    rest = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    structure: Structure[Any] = Structure(spec, rest, places, root)
    if not _INNOCENT.issuperset(others):
        _refuse_hidden(structure, function)
    if not places:
        raise TypeError(_no_tensors(tree, spec, function))
    return [leaves[i] for i in places], structure


def put_together(structure: Structure[Any], values: Sequence[Any]) -> Any:
    """The composite with other tensors (or whatever else) in their places."""
    if structure.flat is not None:
        return structure.flat.rebuild(structure.flat.names, values)
    if structure.places is None or structure.leaves is None:
        return _tree.unflatten(structure.spec, values)
    leaves = structure.leaves.copy()
    for place, value in zip(structure.places, values, strict=True):
        leaves[place] = value
    return _tree.unflatten(structure.spec, leaves)


def apply(f: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
    """``f`` of every tensor (and what belongs to it), once for a tensor that stands twice."""
    if len(set(map(id, columns[0]))) == len(columns[0]):
        return list(map(f, *columns))
    known: dict[tuple[int, ...], Any] = {}
    results = []
    for row in zip(*columns, strict=True):
        key = tuple(map(id, row))
        if key not in known:
            known[key] = f(*row)
        results.append(known[key])
    return results


def distinct(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Every tensor once."""
    return list({id(t): t for t in tensors}.values())


def same(a: Any, b: Any) -> bool:
    """Whether two values that are not tensors agree; NaN agrees with itself, arrays as a whole."""
    if a is b:
        return True
    try:
        equal = a == b
        if isinstance(equal, bool):
            return equal or bool(a != a and b != b)
        return a.shape == b.shape and bool(equal.all())
    except Exception:
        return False


def _no_tensors(tree: Any, spec: _tree.Spec, function: str) -> str:
    name = type(tree).__name__
    if not spec.is_leaf():
        return (
            f"{function}(): expected a Tensor or a composite (a structure that holds tensors), "
            f"but this {name} holds none"
        )
    text = (
        f"{function}(): expected a Tensor or a composite (tuple, list, dict, dataclass, or a class "
        f"decorated with @adjoint.composite), not {name}"
    )
    if hides_tensors(tree):
        text += f"\n  fix: decorate class {name} with @adjoint.composite"
    return text


def hides_tensors(leaf: Any) -> bool:
    """Whether an object that is not a structure holds tensors."""
    return any(isinstance(value, Tensor) for _, value in _inside(leaf))


def _attributes(leaf: Any) -> dict[str, Any]:
    held = getattr(leaf, "__dict__", None)
    return held if isinstance(held, dict) and not isinstance(leaf, type) else {}


_INNOCENT = frozenset({type(None), bool, int, float, complex, str, bytes, type})


def _refuse_hidden(structure: Structure[Any], function: str) -> None:
    """A tensor inside an object that is not a structure would silently get no gradient."""
    assert structure.leaves is not None
    for index, leaf in enumerate(structure.leaves):
        if type(leaf) in _INNOCENT:
            continue
        for entry, value in _inside(leaf):
            if isinstance(value, Tensor) and value.requires_grad:
                cls = type(leaf).__name__
                where = _tree.paths(structure.spec, structure.root)[index] + entry
                raise TypeError(
                    f"{function}(): {where}, a tensor that requires grad, is hidden in an object "
                    f"of class {cls}, where it would silently get no gradient.\n"
                    f"  fix: decorate class {cls} with @adjoint.composite, or make it a dataclass"
                )


def _inside(leaf: Any) -> list[tuple[str, Any]]:
    """What an object that is a leaf holds: attributes, and items if it derives from a container."""
    found = [(f".{name}", value) for name, value in _attributes(leaf).items()]
    if isinstance(leaf, dict):
        found += [(f"[{key!r}]", value) for key, value in leaf.items()]
    elif isinstance(leaf, list | tuple):
        found += [(f"[{i}]", value) for i, value in enumerate(leaf)]
    return found
