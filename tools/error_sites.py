"""Where the sources report an error: in Python a `raise` or a warning, in C++ a `throw`, a
`PyErr_Set…` or the call of a function that never returns. Read next: untested_errors.py.

A site is found with the part of the text that is to be marked, so that a copy of the sources can
note which sites were reached. Passing on an error that exists already is no site.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Site:
    """One place that reports an error; `start` and `end` delimit it in the text of its file."""

    path: str
    line: int
    column: int
    text: str
    start: int
    end: int

    @property
    def name(self) -> str:
        """Return "path:line:column", by which a reached site is noted."""
        return f"{self.path}:{self.line}:{self.column}"


def python_sites(path: str, text: str, helpers: frozenset[str]) -> Iterator[Site]:
    """Yield the statements that raise or warn."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and _reports(node, helpers):
            line = lines[node.lineno - 1]
            column = len(line.encode()[: node.col_offset].decode())
            start = starts[node.lineno - 1] + column
            yield Site(path, node.lineno, column, line.strip(), start, start)


def python_helpers(text: str) -> Iterator[str]:
    """Yield the functions that always raise, by their annotation."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            never = ast.unparse(node.returns).endswith("NoReturn")
            if never and not node.name.startswith("__"):
                yield node.name


def _reports(node: ast.stmt, helpers: frozenset[str]) -> bool:
    if isinstance(node, ast.Raise):
        made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        again = made is None or (made is node.exc and not _is_class(made))
        return not again
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
        return _is_class(node.value.func) and _called(node.value).endswith("Error")
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = _called(node.value)
        return called in ("warnings.warn", "warn") or called in helpers
    return False


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _is_class(made: ast.expr) -> bool:
    last = ast.unparse(made).split(".")[-1].lstrip("_")
    return last[:1].isupper()


# A bug of the library itself, which no caller can bring about: ops declared wrongly, and the like.
_INTERNAL = "std::logic_error"
_NORETURN = re.compile(r"\[\[noreturn\]\]\s+(?:static |inline )*void (\w+)\(")
_SET = r"PyErr_(?:SetString|Format|SetObject|SetNone|WarnEx|WarnFormat|NoMemory)"
_BLANKED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S
)


def cpp_helpers(text: str) -> Iterator[str]:
    """Yield the functions of C++ that are declared never to return."""
    yield from _NORETURN.findall(text)


def cpp_sites(path: str, text: str, helpers: frozenset[str]) -> Iterator[Site]:
    """Yield the expressions that throw, set Python's error, or call a function that does."""
    plain = _BLANKED.sub(lambda found: re.sub(r"[^\n]", "_", found.group()), text)
    calls = "|".join(sorted(helpers))
    pattern = rf"(?P<throw>\bthrow\s+)(?P<made>[\w:]+)\s*\(|(?<![\w:.>])(?:{_SET}|{calls})\("
    for found in re.finditer(pattern, plain):
        if found["made"] in ("PythonError", _INTERNAL) or _is_declaration(plain, found.start()):
            continue
        start = found.end("throw") if found["throw"] else found.start()
        line = text.count("\n", 0, start) + 1
        column = start - (text.rfind("\n", 0, start) + 1)
        shown = text.splitlines()[line - 1].strip()
        yield Site(path, line, column, shown, start, _closing(plain, found.end()))


def _is_declaration(plain: str, start: int) -> bool:
    return re.search(r"\b(void|int)\s*$", plain[:start]) is not None


def _closing(plain: str, position: int) -> int:
    """Return where the parenthesis that was opened just before `position` has been closed."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(plain[position], 0)
        position += 1
    return position


def all_sites(root: Path) -> list[Site]:
    """Return every site of python/adjoint and src below `root`, by file and line."""
    python = {p: p.read_text() for p in sorted((root / "python" / "adjoint").rglob("*.py"))}
    cpp = {p: p.read_text() for p in sorted((root / "src").rglob("*.[ch]*"))}
    raising = frozenset(name for text in python.values() for name in python_helpers(text))
    failing = frozenset(name for text in cpp.values() for name in cpp_helpers(text))
    sites = []
    for path, text in python.items():
        sites += python_sites(str(path.relative_to(root)), text, raising)
    for path, text in cpp.items():
        if path.name != "error.h":  # the helpers themselves
            sites += cpp_sites(str(path.relative_to(root)), text, failing)
    return sorted(sites, key=lambda site: (site.path, site.start))
