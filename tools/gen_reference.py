"""Write the op reference, one Markdown page per family, from `adjoint._core.op_table()`.

docs/conf.py calls `write` when a build starts; the pages are not kept in the repository.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from tools.op_schema import Argument, arguments_of, written

TITLES = {"nn": "Neural networks", "linalg": "Linear algebra"}


def signature(arguments: list[Argument]) -> str:
    parts = []
    for text, argument in written(arguments):
        default = argument.default if argument and not argument.variadic else None
        parts.append(text if default is None else f"{text}={default}")
    return ", ".join(parts)


def block(entry: dict[str, Any]) -> str:
    """One op: its function or method, its doc, and its other forms."""
    arguments, name = arguments_of(entry), entry["name"]
    if entry["function"]:
        head = f"```{{py:function}} adjoint.{name}({signature(arguments)})"
    else:
        head = f"```{{py:method}} adjoint.Tensor.{name}({signature(arguments[1:])})"
    # The same name can stand twice, as overloads or on two pages: only one may be linked to.
    lines = [head, ":no-index:", "", entry["doc"].strip(), ""]
    forms = other_forms(name, entry)
    if forms:
        lines += ["Also: " + ", ".join(f"`{form}`" for form in forms) + ".", ""]
    return "\n".join([*lines, "```", ""])


def other_forms(name: str, entry: dict[str, Any]) -> list[str]:
    forms = [f"adjoint.{alias}" for alias in entry["aliases"]]
    if entry["function"] and entry["method"]:
        forms.append(f"Tensor.{name}")
    if entry["inplace"]:
        forms.append(f"Tensor.{name}_")
    return forms


def page(family: str, entries: list[dict[str, Any]]) -> str:
    title = TITLES.get(family, family.replace("_", " ").capitalize())
    return f"# {title}\n\n" + "\n".join(block(e) for e in entries)


def write(folder: Path) -> None:
    """Write one page per family into `folder`, and remove pages that are no more."""
    from adjoint import _core

    table = [e for e in _core.op_table() if e["function"] or e["method"]]
    table.sort(key=lambda e: (e["family"], e["name"]))
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f: page(f, list(g)) for f, g in groupby(table, key=lambda e: str(e["family"]))}
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink()
    for family, text in pages.items():
        path = folder / f"{family}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
