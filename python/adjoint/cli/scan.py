"""`adjoint scan PATH...`: which names of torch a code base uses, and which of them are there."""

from __future__ import annotations

import argparse
import json
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from adjoint.cli._torch_names import TENSOR, names_in

_SKIPPED = frozenset({"__pycache__", "node_modules", "build", "dist", "site-packages"})


def add_to(subparsers: Any) -> None:
    """Add the subcommand's arguments."""
    parser = subparsers.add_parser(
        "scan",
        help="list the torch names that a code base uses",
        description="List the names of torch that Python files use: which are there, which are "
        "not, and where. Nothing is run. The status is 0 if all are there, 1 if some are not, 2 if "
        "a path or a file cannot be read.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files and folders")
    parser.add_argument("--missing", action="store_true", help="leave out the names that are there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


@dataclass
class Name:
    """One name of torch, and where it stands."""

    name: str
    there: bool
    places: list[str] = field(default_factory=list)
    expected: bool = True  # everywhere in `try` or `hasattr`: the program can do without

    @property
    def needed(self) -> bool:
        """Whether a program stops without it."""
        return not self.there and not self.expected


@dataclass
class Found:
    """What was found in all files."""

    files: int = 0
    names: list[Name] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def execute(arguments: argparse.Namespace) -> int:
    """Scan, print, and return the status."""
    found = scan(arguments.paths)
    print(as_json(found) if arguments.json else as_text(found, arguments.missing))
    if found.unread and not arguments.json:
        print("\n".join(found.unread), file=sys.stderr)
    if found.unread:
        return 2
    return 1 if any(name.needed for name in found.names) else 0


def scan(paths: Iterable[str]) -> Found:
    """Read all files."""
    found = Found()
    uses: defaultdict[str, list[tuple[str, bool]]] = defaultdict(list)
    for path in paths:
        if not Path(path).exists():
            found.unread.append(f"adjoint scan: no such file or folder: {path}")
        for file in _files(Path(path)):
            found.files += 1
            try:
                with tokenize.open(file) as opened:
                    read = names_in(opened.read(), str(file))
            except (OSError, SyntaxError, UnicodeDecodeError, ValueError, RecursionError) as error:
                found.unread.append(f"adjoint scan: cannot read {file}: {error}")
                continue
            for use in read:
                uses[use.name].append((f"{file}:{use.line}", use.expected))
    for name in sorted(uses):
        places = [place for place, _ in uses[name]]
        found.names.append(Name(name, is_there(name), places, all(e for _, e in uses[name])))
    return found


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for child in sorted(path.iterdir()):
            hidden = child.name.startswith(".") or child.name in _SKIPPED
            if child.is_dir() and not hidden:
                yield from _files(child)
            elif child.suffix == ".py":
                yield child


def is_there(name: str) -> bool:
    """Whether adjoint has what ``torch.a.b`` means; beyond a function or a value nobody can say."""
    import adjoint

    holder: Any = adjoint
    parts = name.split(".")
    for part in parts if parts[0] == "functorch" else parts[1:]:
        if not isinstance(holder, ModuleType | type):
            return True
        following = _attribute(holder, part)
        if following is None:
            return False
        holder = following[0]
    return True


def _attribute(holder: Any, name: str) -> tuple[Any] | None:
    if isinstance(holder, ModuleType) and name in ("__version__", "__file__", "__name__"):
        return (holder.__name__,)
    try:
        return (getattr(holder, name),)
    except AttributeError:
        pass
    except ImportError:  # it is there, and needs a package that is not installed
        return (None,)
    if not isinstance(holder, ModuleType):
        return None
    from importlib import import_module

    module = f"{holder.__name__}.{name}"
    try:
        return (import_module(module),)
    except ModuleNotFoundError as error:
        return None if module.startswith(str(error.name)) else (None,)
    except ImportError:
        return (None,)


def _fix(name: str) -> str:
    """What the error about the name would say."""
    from adjoint import _missing
    from adjoint._missing_text import ANYWAY, no_attribute

    before, _missing.answers_as_torch = _missing.answers_as_torch, True
    try:
        owner, _, last = name.rpartition(".")
        ours = "Tensor" if owner == TENSOR else "adjoint" + owner.removeprefix("torch")
        while ours not in ("Tensor", "adjoint") and not is_there("torch" + ours[7:]):
            ours, _, last = ours.rpartition(".")
        lines = no_attribute(ours, last).splitlines()[1:]
    finally:
        _missing.answers_as_torch = before
    hints = "; ".join(line.strip() for line in lines if ANYWAY not in line)
    return f"  ({hints})" if hints else ""


def as_text(found: Found, missing_only: bool = False) -> str:
    """For people."""
    lines: list[str] = []
    absent = [name for name in found.names if name.needed]
    expected = [name for name in found.names if not name.there and name.expected]
    there = [name for name in found.names if name.there]
    if absent:
        lines.append("not there:")
        for name in absent:
            lines.append(f"  {name.name}{_fix(name.name)}")
            lines += [f"      {place}" for place in name.places]
    if expected:
        lines.append("not there, and the program says what it does without (try, hasattr):")
        lines += [f"  {name.name}  {name.places[0]}" for name in expected]
    if there and not missing_only:
        lines.append("there:")
        lines += [f"  {name.name}  {_where(name.places)}" for name in there]
    places = sum(len(name.places) for name in absent)
    lines.append(
        f"{found.files} files, {len(found.names)} names of torch: {len(there)} there, "
        f"{len(absent)} not there (in {places} places), {len(expected)} not there but not needed"
    )
    return "\n".join(lines)


def _where(places: list[str]) -> str:
    return places[0] + (f" and {len(places) - 1} more" if len(places) > 1 else "")


def as_json(found: Found) -> str:
    """For programs."""
    return json.dumps(
        {
            "files": found.files,
            "there": sum(name.there for name in found.names),
            "missing": sum(name.needed for name in found.names),
            "names": [
                {
                    "name": name.name,
                    "there": name.there,
                    "needed": name.needed,
                    "places": name.places,
                    **({} if name.there else {"hint": _fix(name.name).strip(" ()")}),
                }
                for name in found.names
            ],
            "unread": found.unread,
        },
        indent=1,
    )
