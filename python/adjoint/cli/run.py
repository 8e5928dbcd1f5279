"""`adjoint run script.py [args...]`: run a PyTorch program with adjoint in torch's place.

The arguments are those of Python itself: a file or a folder, ``-m module``, ``-c code``, or ``-``
for the standard input; everything after it belongs to the program.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import Any

from adjoint._compat.alias import install_as_torch

_USAGE = "adjoint run [-h] (script.py | -m module | -c code | -) [args ...]"
_RUNPY = ("<frozen runpy>", "runpy.py")


def add_to(subparsers: Any) -> None:
    """Add the subcommand's arguments; `main` reads them, since most belong to the program."""
    from argparse import REMAINDER

    parser = subparsers.add_parser(
        "run",
        help="run a PyTorch program with adjoint",
        usage=_USAGE,
        description="Run a program in which `import torch` means adjoint.",
    )
    parser.add_argument("script", nargs="?", help="a Python file, or a folder with a __main__.py")
    parser.add_argument("-m", metavar="module", help="run a module instead")
    parser.add_argument("-c", metavar="code", help="run this code instead")
    parser.add_argument("args", nargs=REMAINDER, help="its arguments")
    parser.set_defaults(execute=lambda _: 2)


def main(arguments: Sequence[str]) -> int | None:
    """Run what the arguments say; None if they ask for help."""
    if not arguments:
        print(f"adjoint run: nothing to run\nusage: {_USAGE}", file=sys.stderr)
        return 2
    first, *rest = arguments
    if first in ("-h", "--help"):
        return None
    if first in ("-m", "-c"):
        if not rest:
            print(f"adjoint run: argument expected for {first}\nusage: {_USAGE}", file=sys.stderr)
            return 2
        given, *rest = rest
        return (
            _run_module(given, rest) if first == "-m" else _run_text(given, "<string>", "-c", rest)
        )
    if first == "-":
        return _run_text(sys.stdin.read(), "<stdin>", "-", rest)
    if first.startswith("-"):
        print(f"adjoint run: unknown option {first}\nusage: {_USAGE}", file=sys.stderr)
        return 2
    return run_path(first, rest)


def run_path(path: str, arguments: list[str]) -> int:
    """Run a file or a folder with arguments of its own; the exit status."""
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        return _run_folder(path, arguments)
    whole = os.path.abspath(path)
    try:
        with io.open_code(whole) as file:
            source = file.read()
    except OSError as error:
        print(f"adjoint run: cannot read '{path}': {error.strerror}", file=sys.stderr)
        return 2
    install_as_torch()
    sys.argv = [path, *arguments]
    _begin_path(os.path.dirname(os.path.realpath(path)))

    def program() -> None:
        code = compile(source, whole, "exec", dont_inherit=True)
        exec(code, _fresh_main(whole).__dict__)

    return _watched(program)


def _run_folder(path: str, arguments: list[str]) -> int:
    import runpy

    install_as_torch()
    sys.argv = [path, *arguments]
    _begin_path(path)
    return _watched(lambda: runpy.run_path(path, run_name="__main__"))


def _run_text(code: str, name: str, argument: str, arguments: list[str]) -> int:
    install_as_torch()
    sys.argv = [argument, *arguments]
    _begin_path("")

    def program() -> None:
        exec(compile(code, name, "exec", dont_inherit=True), _fresh_main(None).__dict__)

    return _watched(program)


def _run_module(module: str, arguments: list[str]) -> int:
    import runpy

    install_as_torch()
    sys.argv = ["-m", *arguments]
    _begin_path(os.getcwd())
    # Found before it runs, so that an error of the module's own is not taken for its absence.
    try:
        runpy._get_module_details(module)  # type: ignore[attr-defined]
    except ImportError as error:
        print(f"adjoint run: {error}", file=sys.stderr)
        return 1
    return _watched(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))


def _begin_path(folder: str) -> None:
    """Where the program's own modules are looked for: first, in place of adjoint's own start."""
    if sys.flags.safe_path:
        return
    ours = ("", os.getcwd(), os.path.dirname(os.path.realpath(sys.orig_argv[0])))
    if sys.path and sys.path[0] in ours:
        sys.path[0] = folder
    else:
        sys.path.insert(0, folder)


def _fresh_main(path: str | None) -> ModuleType:
    """The module the program runs in; under its name in `sys.modules`, where pickle looks."""
    module = ModuleType("__main__")
    if path is not None:
        module.__file__ = path
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module


def _watched(program: Callable[[], Any]) -> int:
    """Run it; an uncaught exception gives status 1, and is shown from the user's first frame."""
    try:
        program()
    except SystemExit:
        raise
    except BaseException as error:
        traceback = _users_part(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and _is_ours(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback


def _is_ours(file: str) -> bool:
    return file == __file__ or file.endswith(_RUNPY)
