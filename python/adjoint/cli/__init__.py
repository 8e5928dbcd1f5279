"""The command `adjoint`; each subcommand has its file.

A subcommand is a module with `add_to(subparsers)`, which sets `execute` to a function of the parsed
arguments that returns the exit status.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv` (default: the process's arguments); return the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == ["run"]:  # what follows the program's name belongs to the program
        # The other commands are not loaded: a program is to begin soon.
        from adjoint.cli import run

        done = run.main(given[1:])
        if done is not None:
            return done
        given = ["run", "--help"]
    program: list[str] | None = None
    if given[:1] == ["launch"]:
        from adjoint.cli import launch

        own, program = launch.split(given[1:])
        given = ["launch", *own]
    arguments = _parser().parse_args(given)
    if program is not None:
        arguments.program = program
    status: int = arguments.execute(arguments)
    return status


def _parser() -> argparse.ArgumentParser:
    import argparse

    from adjoint.cli import check, demo, graph, launch, profile, run, scan, stubs

    parser = argparse.ArgumentParser(
        prog="adjoint", description="Gradients through any computation."
    )

    class Version(argparse.Action):
        """Prints the version; adjoint itself is only imported when it is asked for."""

        def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
            from adjoint.cli import version

            print(version.text())
            parser.exit()

    parser.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for command in (check, demo, graph, launch, profile, run, scan, stubs):
        command.add_to(subparsers)
    return parser
