"""`adjoint profile script.py`: run a program, and say which of its lines took how long."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from adjoint.cli import run
from adjoint.cli._output import refused


def add_to(subparsers: Any) -> None:
    """Add the subcommand's arguments."""
    parser = subparsers.add_parser(
        "profile",
        help="time and memory of a program by line and by operation",
        description="Run a program (in which `import torch` means adjoint), then print what its "
        "lines and operations took, forward and backward apart.",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with a flame view, too")
    parser.add_argument("script", help="a Python file")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run the program; the status is its own, or 2 if the page cannot be written."""
    if refused(arguments.html, "profile"):
        return 2
    from rich.console import Console

    import adjoint

    seen = adjoint.profile()
    seen.start()
    try:
        status = run.run_path(arguments.script, arguments.args)
    finally:
        seen.stop()
        Console(stderr=True).print(seen)
        if arguments.html:
            print(f"adjoint profile: {seen.save(arguments.html)}", file=sys.stderr)
    return status
