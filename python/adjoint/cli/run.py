"""`adjoint run script.py [args...]`: run a PyTorch script with adjoint in torch's place."""

from __future__ import annotations

import argparse
import io
import os
import sys
from types import ModuleType, TracebackType
from typing import Any

from adjoint._compat.alias import install_as_torch


def add_to(subparsers: Any) -> None:
    """Add the subcommand's arguments."""
    parser = subparsers.add_parser(
        "run",
        help="run a PyTorch script with adjoint",
        description="Run a script in which `import torch` means adjoint.",
    )
    parser.add_argument("script", help="the Python file")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run the script as `__main__`; its uncaught exception gives status 1."""
    path = arguments.script
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        print(f"adjoint run: cannot read '{path}': {error.strerror}", file=sys.stderr)
        return 2
    install_as_torch()
    sys.argv = [path, *arguments.args]
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    try:
        code = compile(source, path, "exec", dont_inherit=True)
        exec(code, _fresh_main(path).__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        # Shown as Python shows it, from the first frame of the user's own program.
        traceback = _users_part(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _fresh_main(path: str) -> ModuleType:
    """The module the script runs in; under its name in `sys.modules`, where pickle looks."""
    module = ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback
