"""How composites print: a tree with the shape and dtype of each tensor."""

from __future__ import annotations

from typing import Any

from adjoint import _tree
from adjoint._core import Tensor

from ._structure import distinct

__all__ = ["describe", "printed"]

_WIDTH = 60  # of values that are not tensors
_ITEMS = 20  # of one container; the rest is counted


def describe(composite: Any) -> str:
    """The tree of a composite, one line per part, with the shape and dtype of each tensor.

    Examples
    --------
    >>> import adjoint as ad
    >>> w = ad.ones(3, requires_grad=True)
    >>> print(ad.describe({"layers": [w, w], "name": "tied"}))
    dict: 1 tensor, 3 elements, 12 bytes
      ['layers']: list
        [0]: float32 [3] requires_grad
        [1]: float32 [3] requires_grad, the tensor at ['layers'][0]
      ['name']: 'tied'
    """
    leaves, _ = _tree.flatten(composite)
    once = distinct(leaf for leaf in leaves if isinstance(leaf, Tensor))
    counts = (
        _plural(len(once), "tensor"),
        _plural(sum(t.numel() for t in once), "element"),
        _plural(sum(t.nbytes for t in once), "byte"),
    )
    return printed(composite, after=": " + ", ".join(counts))


def printed(tree: Any, title: str = "", after: str = "") -> str:
    """The lines of a tree."""
    if not _tree.is_structure(tree):
        return title + _leaf(tree) + after
    lines = [title + type(tree).__name__ + after]
    _add(lines, tree, "  ", "", {})
    return "\n".join(lines)


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def _add(lines: list[str], tree: Any, indent: str, place: str, seen: dict[int, str]) -> None:
    parts, entries = _tree.children(tree)
    for part, entry in list(zip(parts, entries, strict=True))[:_ITEMS]:
        step = _tree.step(type(tree), entry)
        name = indent + step.removeprefix(".")
        if _tree.is_structure(part):
            lines.append(f"{name}: {type(part).__name__}")
            _add(lines, part, indent + "  ", place + step, seen)
            continue
        text = _leaf(part)
        if isinstance(part, Tensor):
            first = seen.setdefault(id(part), place + step)
            if first != place + step:
                text += f", the tensor at {first.removeprefix('.')}"
        lines.append(f"{name}: {text}")
    if len(parts) > _ITEMS:
        lines.append(f"{indent}... {len(parts) - _ITEMS} more")


def _leaf(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        dtype = str(leaf.dtype).removeprefix("torch.")
        return f"{dtype} {list(leaf.shape)}" + (" requires_grad" if leaf.requires_grad else "")
    text = " ".join(repr(leaf).split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
