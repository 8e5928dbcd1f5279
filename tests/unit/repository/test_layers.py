"""Includes and imports keep to the tables of ARCHITECTURE.md, and files that are named exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.children import ROOT

SRC, PYTHON = ROOT / "src", ROOT / "python" / "adjoint"
Edges = dict[str, set[str]]


def table(prefix: str) -> Edges:
    """The rows of ARCHITECTURE.md whose folder begins with `prefix`: folder -> what it may know."""
    rows: Edges = {}
    for line in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"| `{prefix}"):
            folder, _, known = line.strip("|").split("|")
            name = folder.split("`")[1].removeprefix(prefix).split("/")[0]
            rows[name] = set(re.findall(r"`(\w+)`", known))
    return rows


def included() -> Edges:
    edges: Edges = {}
    for path in SRC.rglob("*"):
        if path.suffix in (".h", ".cpp"):
            room = path.relative_to(SRC).parts[0]
            names = re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M)
            assert all((SRC / name).is_file() for name in names), f"{path}: from src/, please"
            edges.setdefault(room, set()).update({name.split("/")[0] for name in names} - {room})
    return edges


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when the module is imported: not those in functions or for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from statements(child)


def modules(path: Path, statement: ast.Import | ast.ImportFrom) -> list[str]:
    """Absolute names of what is imported, perhaps with the name inside the module."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    package = ["adjoint", *path.relative_to(PYTHON).parts[:-1]]
    base = package[: len(package) - statement.level + 1] if statement.level else []
    module = ".".join([*base, *([statement.module] if statement.module else [])])
    return [f"{module}.{alias.name}" for alias in statement.names]


def imported() -> Edges:
    edges: Edges = {}
    rooms = {path.parent.name for path in PYTHON.glob("*/__init__.py")}
    for path in PYTHON.rglob("*.py"):
        room = path.relative_to(PYTHON).parts[0]
        if room not in rooms:
            continue  # A module at the top serves all rooms.
        known = edges.setdefault(room, set())
        for statement in statements(ast.parse(path.read_text(encoding="utf-8"))):
            for name in modules(path, statement):
                parts = name.split(".")
                if parts[0] == "adjoint" and len(parts) > 1 and parts[1] in rooms - {room}:
                    known.add(parts[1])
    return edges


def test_includes_keep_to_the_table() -> None:
    assert included() == table("src/")


def test_imports_keep_to_the_table() -> None:
    assert imported() == table("python/adjoint/")


def test_no_folder_of_the_core_knows_itself_by_way_of_another() -> None:
    rest = included()
    while ends := [room for room, known in rest.items() if not known & rest.keys()]:
        for room in ends:
            del rest[room]
    assert not rest, f"these know one another in a circle: {sorted(rest)}"


def named(text: str) -> list[str]:
    """The files of the core that the comments of a source name."""
    comments = "\n".join(re.findall(r"//(.*)", re.sub(r"^#include.*", "", text, flags=re.M)))
    return re.findall(r"(?<![\w/<.])((?:[a-z_]+/)*[a-z_]+\.(?:h|cpp))\b", comments)


def test_files_that_comments_name_exist() -> None:
    others = {"frameobject.h", "pycore_frame.h", "pycore_interpframe_structs.h"}  # CPython's
    missing = {
        f"{path.relative_to(SRC)}: {name}"
        for path in SRC.rglob("*")
        if path.suffix in (".h", ".cpp")
        for name in named(path.read_text(encoding="utf-8"))
        if not any((folder / name).exists() for folder in (SRC, path.parent, ROOT))
    }
    assert not {name for name in missing if name.rpartition(" ")[2] not in others}


def python_words(text: str) -> Iterator[str]:
    """The comments and docstrings of a module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


# A file, or a folder of ours; not the part before the * of a pattern.
NAMED = re.compile(
    r"(?<![\w/<.\"'-])((?:\w+/)*\w+\.(?:h|cpp|py|md)|(?:src|docs|tests|tools)/[\w/]+)\b(?!\*)"
)


def test_files_that_docstrings_name_exist() -> None:
    # Programs of users, in examples.
    others = {"model.py", "script.py", "train.py"}
    missing = {
        f"{path.relative_to(PYTHON)}: {name}"
        for path in PYTHON.rglob("*.py")
        for words in python_words(path.read_text(encoding="utf-8"))
        for name in NAMED.findall(words)
        if name not in others
        and not any((folder / name).exists() for folder in (ROOT, SRC, PYTHON, path.parent))
    }
    assert not missing


def test_paths_that_pages_name_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *SRC.glob("*/README.md")]
    missing = {
        f"{page.relative_to(ROOT)}: {path}"
        for page in pages
        if page.name != "CHANGELOG.md" and "generated" not in page.parts
        for path in re.findall(
            r"`((?:src|python|tests|docs|tools|benchmarks)/[\w/.-]+)`",
            page.read_text(encoding="utf-8"),
        )
        if not (ROOT / path).exists()
    }
    assert not missing
