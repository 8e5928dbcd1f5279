"""`adjoint stubs --as-torch`: type stubs for programs that say ``import torch``.

adjoint's own types come with the package. The stubs written here give each of its modules a second
address, so that a type checker reads ``torch.nn.Linear`` as ``adjoint.nn.Linear``.
"""

from __future__ import annotations

import argparse
import ast
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

_HIDDEN = ("adjoint.cli", "adjoint.plot", "adjoint.numeric", "adjoint.parallel")
_HEAD = '"""Names of torch, as adjoint has them; written by `adjoint stubs --as-torch`."""\n'


def add_to(subparsers: Any) -> None:
    """Add the subcommand's arguments."""
    parser = subparsers.add_parser(
        "stubs",
        help="write type stubs for programs that say `import torch`",
        description="Write a folder `torch` of type stubs that lead to adjoint's types. mypy finds "
        "it by MYPYPATH (or mypy_path), pyright in the folder `typings`.",
    )
    parser.add_argument(
        "--as-torch", action="store_true", required=True, help="under the name torch"
    )
    parser.add_argument("--out", default="typings", help="the folder to write to (typings)")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the stubs and say where."""
    folder = Path(arguments.out)
    try:
        count = write_stubs(folder)
    except OSError as error:
        print(f"adjoint stubs: cannot write to '{folder}': {error.strerror}", file=sys.stderr)
        return 2
    print(f"{count} stubs in {folder / 'torch'}; for mypy: MYPYPATH={folder}")
    return 0


def write_stubs(folder: Path) -> int:
    """Write a stub for each public module; return how many."""
    modules = public_modules()
    for name, module in modules.items():
        parts = name.split(".")[1:]
        is_package = hasattr(module, "__path__")
        path = folder.joinpath("torch", *parts, "__init__.pyi" if is_package else "")
        path = path if is_package else path.with_suffix(".pyi")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stub_of(name, module, modules))
    return len(modules)


def public_modules() -> dict[str, ModuleType]:
    """All modules that a program may import, by name."""
    import adjoint

    found: dict[str, ModuleType] = {"adjoint": adjoint}
    for info in walk_packages(adjoint.__path__, "adjoint.", onerror=lambda _: None):
        private = any(part.startswith("_") and part != "_C" for part in info.name.split("."))
        if private or info.name.startswith(_HIDDEN):
            continue
        try:
            found[info.name] = import_module(info.name)
        except ImportError:  # what it needs is not installed
            continue
    return found


def stub_of(name: str, module: ModuleType, modules: dict[str, ModuleType]) -> str:
    """The text of one stub."""
    static, borrowed = static_names(module)
    torch = "torch" + name.removeprefix("adjoint")
    lines, dynamic = [], []
    if name == "adjoint":
        lines.append("__version__: str")
    for entry in sorted({*dir(module), *_below(name, modules)}):
        if entry.startswith("__"):
            continue
        try:
            value = getattr(module, entry, None)
        except ImportError:  # a part whose package is not installed
            dynamic.append(f"{entry}: Any")
            continue
        below = modules.get(f"{name}.{entry}")
        if below is not None and (value is below or value is None):
            lines.append(f"from {torch} import {entry} as {entry}")
        elif isinstance(value, ModuleType):
            address = value.__name__
            if address in modules:
                lines.append(f"import torch{address.removeprefix('adjoint')} as {entry}")
        elif entry in static:
            lines.append(f"from {name} import {entry} as {entry}")
        elif not entry.startswith("_") and entry not in borrowed:
            dynamic.append(f"{entry}: Any")
    if name == "adjoint":
        from adjoint._tensor.foreach import foreach_names

        dynamic += [f"{entry}: Any" for entry in foreach_names()]
    head = "from typing import Any\n\n" if dynamic else ""
    return _HEAD + head + "\n".join([*lines, *dynamic]) + "\n"


def _below(name: str, modules: dict[str, ModuleType]) -> set[str]:
    start = name + "."
    return {
        n.removeprefix(start) for n in modules if n.startswith(start) and "." not in n[len(start) :]
    }


def static_names(module: ModuleType) -> tuple[set[str], set[str]]:
    """What a type checker finds in a module's source, and what that only imports for itself."""
    file = Path(str(module.__file__))
    source = file if file.suffix == ".py" else file.parent / "_core.pyi"
    names: set[str] = set()
    tree = ast.parse(source.read_text())
    _collect(tree.body, names, module)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    borrowed = {alias.asname or alias.name for node in imports for alias in node.names}
    return names, borrowed - names


def _collect(body: list[ast.stmt], names: set[str], module: ModuleType) -> None:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ImportFrom(module="_core" | "adjoint._core", names=[ast.alias(name="*")]):
                names.update(_core_names())
            case ast.ImportFrom(module=str(origin), level=0, names=[ast.alias(name="*")]):
                starred = import_module(origin)
                public = getattr(starred, "__all__", None)
                names.update(public if public is not None else static_names(starred)[0])
            case ast.ImportFrom(names=imported):
                # Only these are seen from outside: `x as x`, and what `__all__` names.
                public = set(getattr(module, "__all__", ()))
                names.update(
                    alias.asname or alias.name
                    for alias in imported
                    if alias.asname == alias.name or (alias.asname or alias.name) in public
                )
            case ast.Assign(targets=targets):
                names.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.If(test=test, body=inner, orelse=other):
                hidden = isinstance(test, ast.UnaryOp)  # if not TYPE_CHECKING
                _collect(other if hidden else [*inner, *other], names, module)


def _core_names() -> set[str]:
    import adjoint

    stub = Path(str(adjoint.__file__)).parent / "_core.pyi"
    names: set[str] = set()
    _collect(ast.parse(stub.read_text()).body, names, ModuleType("_core"))
    return {name for name in names if not name.startswith("_")}
