"""Write the reference: a page for each folder of src/ops, and for each room of the library.

docs/conf.py calls `write` when a build starts; the pages are not kept in the repository. Operations
come from `adjoint._core.op_table()`; the rooms, from `__all__`, are in reference_rooms.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tools import reference_rooms
from tools.op_schema import Argument, arguments_of, written

OPS = Path(__file__).resolve().parent.parent / "src" / "ops"

# Folders of src/ops in the order of the reference. Those of sparse tensors have private names only.
FOLDERS = {
    "creation": "Making tensors",
    "elementwise": "Elementwise operations",
    "reduce": "Sums, extrema and statistics",
    "shape": "Shapes and views",
    "index": "Indexing and sorting",
    "linalg": "Linear algebra",
    "fft": "Fourier transforms",
    "nn": "Operations of networks",
    "random": "Random numbers",
}
# Files whose names say too little as a heading.
TITLES = {
    "attention_call": "Attention",
    "chains": "Products of several, tensor equations",
    "conv_functions": "Convolutions",
    "core": "Fourier transforms of real and complex parts",
    "eig": "Eigenvalues",
    "eigh": "Eigenvalues of symmetric matrices",
    "ldl": "LDL factors",
    "lu": "LU factors",
    "qr": "QR factors",
    "svd": "Singular values",
    "cholesky": "Cholesky factors",
    "ctc": "Connectionist temporal classification",
    "frames": "Frames of a signal",
    "parts": "Parts of complex numbers",
    "rrelu": "Random slopes",
    "scan": "Running sums, products and extrema",
    "view_ops": "Views",
    "partial_views": "Views of a part",
}
MODULES = ("linalg", "fft", "special")  # linalg_solve of the table is adjoint.linalg.solve


def signature(arguments: list[Argument]) -> str:
    parts = []
    for text, argument in written(arguments):
        default = argument.default if argument and not argument.variadic else None
        parts.append(text if default is None else f"{text}={default}")
    return ", ".join(parts)


def public(name: str) -> str:
    """The name that a program writes: linalg_solve is adjoint.linalg.solve."""
    module, _, rest = name.partition("_")
    return f"adjoint.{module}.{rest}" if rest and module in MODULES else f"adjoint.{name}"


def block(entry: dict[str, Any], indexed: bool = True) -> str:
    """One op: its function or method, its doc, and its other forms."""
    arguments, name = arguments_of(entry), entry["name"]
    if entry["function"]:
        head = f"```{{py:function}} {public(name)}({signature(arguments)})"
    else:
        head = f"```{{py:method}} adjoint.Tensor.{name}({signature(arguments[1:])})"
    lines = [head, *([] if indexed else [":no-index:"]), "", entry["doc"].strip(), ""]
    forms = other_forms(name, entry)
    if forms:
        lines += ["Also: " + ", ".join(f"`{form}`" for form in forms) + ".", ""]
    return "\n".join([*lines, "```", ""])


def other_forms(name: str, entry: dict[str, Any]) -> list[str]:
    forms = [public(alias) for alias in entry["aliases"]]
    if entry["function"] and entry["method"]:
        forms.append(f"Tensor.{name}")
    if entry["inplace"]:
        forms.append(f"Tensor.{name}_")
    return forms


def page(title: str, families: dict[str, list[dict[str, Any]]], seen: set[str]) -> str:
    """The ops of one folder, with a heading for each of its files; adds their names to `seen`."""
    parts = [f"# {title}\n"]
    for family, entries in sorted(families.items()):
        parts.append(f"## {TITLES.get(family, family.replace('_', ' ').capitalize())}\n")
        for entry in sorted(entries, key=lambda e: str(e["name"])):
            # An overload stands below its first form, which is the one that is linked to.
            parts.append(block(entry, indexed=public(entry["name"]) not in seen))
            seen.add(public(entry["name"]))
    return "\n".join(parts)


def op_pages(seen: set[str]) -> dict[str, str]:
    """The text of each page, by the name of its file; adds the names of the ops to `seen`."""
    from adjoint import _core

    folder_of = {path.stem: name for name in FOLDERS for path in (OPS / name).glob("*.cpp")}
    folders: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in FOLDERS}
    for entry in _core.op_table():
        if (entry["function"] or entry["method"]) and not entry["name"].startswith("_"):
            families = folders[folder_of[entry["family"]]]
            families.setdefault(entry["family"], []).append(entry)
    return {f"ops-{name}": page(FOLDERS[name], found, seen) for name, found in folders.items()}


def write(folder: Path) -> None:
    """Write the pages into `folder`, and remove those that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    pages = op_pages(seen) | reference_rooms.pages(seen)
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
