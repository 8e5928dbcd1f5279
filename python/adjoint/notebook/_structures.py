"""A composite as a tree that opens, with the tensors at its ends."""

from __future__ import annotations

from html import escape
from typing import Any

from adjoint import _tree
from adjoint._core import Tensor
from adjoint.composite import describe

from ._tensors import tensor_html

_ITEMS = 100  # of one container; the rest is counted
_OPEN = 2  # levels that are open to begin with


def structure_html(structure: Any) -> str:
    """The tree of a composite."""
    if not _tree.is_structure(structure):
        return _end(structure)
    title = describe(structure).split("\n", 1)[0]
    return f'<div style="font-family:monospace">{_branch(escape(title), structure, 0)}</div>'


def _branch(title: str, structure: Any, depth: int) -> str:
    parts, entries = _tree.children(structure)
    lines = []
    for part, entry in list(zip(parts, entries, strict=True))[:_ITEMS]:
        name = escape(_tree.step(type(structure), entry).removeprefix("."))
        if _tree.is_structure(part):
            lines.append(_branch(f"{name}: {escape(type(part).__name__)}", part, depth + 1))
        elif isinstance(part, Tensor):
            brief = f"{escape(str(part.dtype).removeprefix('torch.'))} {list(part.shape)}"
            needs = " requires_grad" if part.requires_grad else ""
            lines.append(_details(f"{name}: {brief}{needs}", _end(part), False))
        else:
            lines.append(f"<div>{name}: {_end(part)}</div>")
    if len(parts) > _ITEMS:
        lines.append(f"<div>... {len(parts) - _ITEMS} more</div>")
    return _details(title, "".join(lines), depth < _OPEN)


def _details(title: str, inside: str, is_open: bool) -> str:
    attribute = " open" if is_open else ""
    return (
        f"<details{attribute}><summary>{title}</summary>"
        f'<div style="margin-left:1.5em">{inside}</div></details>'
    )


def _end(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return tensor_html(leaf)
    text = " ".join(repr(leaf).split())
    return escape(text if len(text) <= 200 else text[:197] + "...")


class Shown:
    """A structure that notebooks show as a tree."""

    def __init__(self, structure: Any) -> None:
        self.structure = structure

    def __repr__(self) -> str:
        return describe(self.structure)

    def _repr_html_(self) -> str:
        return structure_html(self.structure)


def show(structure: Any) -> Shown:
    """Show a structure of tensors (a dict, a list, a state) as a tree that opens.

    Classes with ``@adjoint.composite`` are shown so by themselves; this is for dicts and lists.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.notebook.show({"w": ad.ones(2)})
    dict: 1 tensor, 2 elements, 8 bytes
      ['w']: float32 [2]
    """
    return Shown(structure)
