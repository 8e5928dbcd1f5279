"""Executables and scripts as functions: arrays are written, the program runs, arrays are read.

Every call has a scratch folder of its own, which is gone afterwards whatever happened. A program
that runs too long is ended with everything it started. Read next: _formats.py.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from adjoint import _tree
from adjoint.numeric._errors import ExternalError

from ._cache import content_of_file, identity_of
from ._formats import FORMATS
from ._journal import Note
from ._runs import KeptRuns
from ._templates import Templates
from .parsers import Parser

__all__ = ["Command", "CommandError", "command"]

# Options that do not change what a run does, or that are asked for otherwise.
_ELSEWHERE = ("keep", "resume", "scratch", "timeout", "retries", "templates", "outputs")
_TAIL = 2000  # characters of stderr in an error
_DOUBLED = "braces that are not fields are doubled: '{{' and '}}'"


class CommandError(ExternalError):
    """A program failed.

    Attributes
    ----------
    returncode : int or None
        Its exit code, negative for a signal, None if it never ended by itself.
    stderr : str
        What it wrote there.
    """

    def __init__(self, message: str, returncode: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.returncode, self.stderr = returncode, stderr

    def __reduce__(self) -> tuple[type, tuple[str, int | None, str]]:
        return type(self), (str(self), self.returncode, self.stderr)


class TimedOut(CommandError):
    """A program did not end within its ``timeout=``."""

    timed_out = True


class Command:
    """A callable that runs a program; made by `command`."""

    def __init__(self, arguments: Sequence[str], **options: Any) -> None:
        if isinstance(arguments, (str, bytes, os.PathLike)):
            raise TypeError(
                f"command() takes the program and its arguments as a list, got {arguments!r}.\n"
                "  fix: ['./model', '{input}', '{output}'], or ['sh', '-c', line] for a shell"
            )
        self.arguments = [os.fspath(a) for a in arguments]
        self.format: str | Mapping[str, str] = options["format"]
        self.inputs: list[str] | None = options["inputs"]
        given = options["outputs"]
        self.parsers: dict[str, Parser] = dict(given) if isinstance(given, Mapping) else {}
        self.outputs: list[str] | None = None if self.parsers else given
        self.retries: int = options["retries"]
        # Where relative paths start: programs run in a scratch folder, perhaps in another process.
        self.home = os.path.abspath(options["cwd"] or os.getcwd())
        templates = options["templates"]
        self.templates = (
            None if templates is None else Templates(templates, self.home, self.inputs or ["input"])
        )
        self.runs = (
            None
            if options["keep"] is None
            else KeptRuns(os.path.join(self.home, os.fspath(options["keep"])), options["resume"])
        )
        self.options = {**options, "cwd": options["cwd"] and self.home}
        self.label = self.__name__ = Path(self.arguments[0]).name if self.arguments else "command"
        self._check()
        self.arguments[0] = self._program()
        kind = inspect.Parameter.POSITIONAL_ONLY
        names = self.inputs or ["input"]
        self.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])

    def _check(self) -> None:
        if not self.arguments:
            raise ValueError("command() needs the program to run, got an empty list")
        if self.retries < 0:
            raise ValueError(f"retries= must not be negative, got {self.retries}")
        if self.options["resume"] and self.runs is None:
            raise ValueError("resume=True reads runs that were kept. fix: keep='runs' beside it")
        self._check_formats()
        for name, parser in self.parsers.items():
            if not isinstance(parser, Parser):
                raise TypeError(
                    f"outputs= takes names, or a dict of names and parsers "
                    f"(adjoint.external.parsers); {name!r} has {parser!r}"
                )
        fields = self._fields()
        self.stdin = not any(f == "input" or f.startswith("input_") for f in fields)
        if self.templates is not None:
            self.stdin = False  # the inputs stand in the decks
            given = self.templates.used | {f.removeprefix("input_") for f in fields}
            nowhere = [n for n in self.inputs or ["input"] if n not in given | {"input"}]
            if nowhere and "input" not in fields:
                raise ValueError(
                    f"the input {nowhere[0]!r} stands in no template and in no argument, so that "
                    f"the program would not see it. fix: write {{{{{nowhere[0]}}}}} into a template"
                )
        self.stdout = not any(f == "output" or f.startswith("output_") for f in fields)
        known = {"input", "output", "folder"}
        known |= {f"input_{n}" for n in self.inputs or ()} | set(self.inputs or ())
        known |= {f"output_{n}" for n in self.outputs or ()}
        for field in sorted(fields):
            if field not in known:
                raise ValueError(
                    f"the template names {{{field}}}; there are "
                    f"{', '.join('{' + k + '}' for k in sorted(known))}; "
                    f"{_DOUBLED}"
                )
        binary = any(self._format(name) == "npy" for name in self.outputs or ())
        if binary and self.stdout and self.outputs and len(self.outputs) > 1:
            raise ValueError("several outputs in npy format need files: {output_name} for each")

    def _check_formats(self) -> None:
        chosen = self.format
        known = {"input", "output", *(self.inputs or ()), *(self.outputs or ())}
        for name, kind in chosen.items() if isinstance(chosen, Mapping) else [("", chosen)]:
            if name and name not in known:
                raise ValueError(
                    f"format= names {name!r}; the files are {', '.join(sorted(known))}"
                )
            if kind not in FORMATS:
                raise ValueError(f"format= is one of {', '.join(map(repr, FORMATS))}; got {kind!r}")

    def _format(self, name: str) -> str:
        """The format of one file."""
        return self.format if isinstance(self.format, str) else self.format.get(name, "npy")

    def identity(self) -> str:
        """What the function is: the program, and how its results are read."""
        read = {name: (p.text or identity_of(p.read), p.file) for name, p in self.parsers.items()}
        return repr((self._identity_of_runs(), self.outputs, read))

    def _identity_of_runs(self) -> str:
        """What the program is: its arguments, its files, how it is called."""
        files = []
        for argument in self.arguments:
            path = shutil.which(argument) or os.path.join(self.home, argument)
            if "{" not in argument and os.path.isfile(path):
                files.append(content_of_file(path))
        said = {k: str(v) for k, v in self.options.items() if k not in _ELSEWHERE}
        decks = None if self.templates is None else self.templates.texts
        return repr((self.arguments, files, sorted(said.items()), decks))

    def _program(self) -> str:
        """The program; a path, as opposed to a name that is looked up, made absolute."""
        program = self.arguments[0]
        if not os.path.dirname(program) or any(f for _, f, _, _ in Formatter().parse(program)):
            return program
        # Braces of the folder are not fields of the template.
        home = self.home.replace("{", "{{").replace("}", "}}")
        return str(Path(home, program))

    def _fields(self) -> set[str]:
        found: set[str] = set()
        for argument in self.arguments:
            try:
                fields = {f for _, f, _, _ in Formatter().parse(argument) if f is not None}
            except ValueError as error:
                raise ValueError(f"the template {argument!r}: {error}; {_DOUBLED}") from None
            if any(not f or f.isdigit() for f in fields):
                raise ValueError(f"the template {argument!r} has a nameless field; {_DOUBLED}")
            found |= fields
        return found

    def __call__(self, *args: Any) -> Any:
        """Run the program on arrays; again, if it fails and ``retries`` says so."""
        for _ in range(self.retries):
            with contextlib.suppress(CommandError):
                return self._once(args)
        return self._once(args)

    def _once(self, args: Sequence[Any]) -> Any:
        note = self._scratch()
        try:
            return self._run(Path(note.folder), args, note)
        except OSError as error:
            raise CommandError(
                f"{self.label}: the scratch folder {note.folder} could not be used: {error}\n"
                "  fix: free space, or choose another folder with scratch="
            ) from error
        finally:
            note.close()

    def _scratch(self) -> Note:
        try:
            return Note(self.options["scratch"])
        except OSError as error:
            raise CommandError(f"{self.label}: no scratch folder could be made: {error}") from error

    def _run(self, folder: Path, args: Sequence[Any], note: Note) -> Any:
        names = self.inputs or ["input"]
        if len(args) != len(names):
            raise TypeError(
                f"{self.label} takes {len(names)} inputs ({', '.join(names)}), "
                f"got {len(args)}; name them with inputs="
            )
        key = ""
        if self.runs is not None:
            key = self.runs.key(self._identity_of_runs(), args)
            kept = self.runs.finished(key)
            if kept is not None:
                return self._read_again(kept)
        values: dict[str, Any] = self._paths(folder)
        text = self._write(folder, names, args, values)
        arguments = [a.format_map(values) for a in self.arguments]
        out: bytes | None = None
        err = b""
        try:
            out, err = self._execute(arguments, folder, text, note)
        except CommandError as error:
            err = error.stderr.encode()
            raise
        finally:
            if self.runs is not None:
                self.runs.add(key, folder, arguments, out, err)
        return self._read(folder, values, out)

    def _read_again(self, kept: Path) -> Any:
        """What a run that was kept has given."""
        try:
            return self._read(kept, self._paths(kept), (kept / "stdout.txt").read_bytes())
        except (CommandError, OSError) as error:
            raise CommandError(
                f"{error}\n  That is of a run that was kept, {kept}.\n"
                "  fix: remove that folder, if the program is to run again"
            ) from error

    def _paths(self, folder: Path) -> dict[str, Any]:
        """What the fields of the arguments stand for, as far as they are paths."""
        values = {"folder": str(folder)}
        for name in ("output", *(f"output_{n}" for n in self.outputs or ())):
            kind = self._format(name.removeprefix("output_"))
            values[name] = str(folder / f"{name}{FORMATS[kind][2]}")
        return values

    def _write(
        self, folder: Path, names: Sequence[str], args: Sequence[Any], values: dict[str, Any]
    ) -> bytes:
        """Write the inputs to their files; what goes to standard input."""
        text = b""
        fields = self._fields()
        for name, value in zip(names, args, strict=True):
            # A number may stand in the arguments themselves, with every digit.
            if name != "input" and not _tree.is_structure(value):
                values[name] = np.asarray(value).tolist()
            field = "input" if self.inputs is None else f"input_{name}"
            if not self.stdin and not {field, "input"} & fields:
                continue
            write, _, suffix = FORMATS[self._format(name)]
            path = folder / f"{name}{suffix}"
            data = write(self._written(name, value))
            values[field] = str(path)
            values["input"] = values.get("input", str(path))
            if self.stdin:
                text += data
            else:
                path.write_bytes(data)
        if self.templates is not None:
            self.templates.write(folder, dict(zip(names, args, strict=True)))
        return text

    def _written(self, name: str, value: Any) -> Any:
        """What a file is to hold: an array, or (in JSON) a composite as it is."""
        if not _tree.is_structure(value):
            return np.asarray(value)
        if self._format(name) != "json":
            if isinstance(value, (list, tuple)):
                return np.asarray(value)
            raise TypeError(
                f"{self.label}: {name} is {_tree.kind_of(value)}, but a file of "
                f"format={self._format(name)!r} holds one array.\n"
                "  fix: format='json', or a file for each array: inputs=[...]"
            )
        return value

    def _execute(
        self, arguments: list[str], folder: Path, text: bytes, note: Note
    ) -> tuple[bytes, bytes]:
        process, timeout = None, self.options["timeout"]
        try:
            with note.starting():
                process = self._started(arguments, folder, note)
                note.group(process.pid)
            out, err = process.communicate(text, timeout=timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            raise TimedOut(
                f"{self.label} did not end within timeout={timeout} s and was stopped: "
                f"{' '.join(arguments)}"
            ) from None
        except BaseException:
            if process is not None:
                _end(process)
            raise
        _end(process)  # whatever it left running
        if process.returncode != 0:
            raise self._failed(process.returncode, arguments, err.decode(errors="replace"))
        return out, err

    def _started(self, arguments: list[str], folder: Path, note: Note) -> subprocess.Popen[bytes]:
        env = self.options["env"]
        try:
            # A session of its own, so that its children can be ended with it.
            return subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.options["cwd"] or folder,
                env=None if env is None else {**os.environ, **env},
                start_new_session=True,
                pass_fds=note.inherited,
            )
        except OSError as error:
            why = self._not_found(arguments[0]) if isinstance(error, FileNotFoundError) else ""
            raise CommandError(f"{self.label} could not be started: {why or error}") from error

    def _not_found(self, program: str) -> str:
        """Why there is no such program, with where it was looked for; empty if it is there."""
        cwd = self.options["cwd"]
        if cwd is not None and not os.path.isdir(cwd):
            return f"there is no folder {cwd}, which cwd= names"
        folder, name = os.path.split(program)
        if folder:
            return "" if os.path.lexists(program) else f"there is no {name} in {folder}"
        here = os.path.join(self.home, name)
        fix = f"\n  fix: './{name}' is the one in {self.home}" if os.path.isfile(here) else ""
        return f"there is no {name} in the folders of PATH{fix}"

    def _failed(self, code: int, arguments: list[str], err: str) -> CommandError:
        how = (
            f"exited with code {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"
        )
        shown = err.strip()[-_TAIL:] or "(nothing)"
        # Programs often say so of a file beside the caller, where they do not run.
        fix = ""
        if self.options["cwd"] is None and "No such file" in err:
            fix = (
                "\n  fix: it ran in its scratch folder; cwd='.' runs it in "
                f"{self.home}, or make its paths absolute"
            )
        return CommandError(
            f"{self.label} {how}: {' '.join(arguments)}\n  stderr: {shown}{fix}", code, err
        )

    def _read(self, folder: Path, values: Mapping[str, Any], out: bytes) -> Any:
        if self.parsers:
            return {name: self._parsed(name, folder, out) for name in self.parsers}
        if self.stdout:
            names = self.outputs or ["output"]
            sources = [("standard output", self._format(names[0]), out)]
        else:
            sources = []
            for name in self.outputs or ["output"]:
                path = Path(values[f"output_{name}" if self.outputs else "output"])
                if not path.exists():
                    there = ", ".join(sorted(p.name for p in folder.iterdir())) or "nothing"
                    raise CommandError(
                        f"{self.label} wrote no {path.name}; its folder holds {there}"
                    )
                sources.append((path.name, self._format(name), path.read_bytes()))
        arrays = []
        for what, kind, data in sources:
            try:
                arrays.append(FORMATS[kind][1](data))
            except Exception as error:
                raise CommandError(
                    f"{self.label}: {what} is not {kind}: {error}; it starts with {data[:80]!r}"
                ) from error
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    def _parsed(self, name: str, folder: Path, out: bytes) -> Any:
        parser = self.parsers[name]
        source: Any = b""
        try:
            source = parser.source(folder, out)
            return parser.read(source)
        except Exception as error:
            where = parser.file or "standard output"
            start = f"; it starts with {source[:80]!r}" if isinstance(source, bytes) else ""
            raise CommandError(
                f"{self.label}: {name} could not be read from {where}: {error}{start}"
            ) from error


def _end(process: Any) -> None:
    """End a program and everything in its session; wait for it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(Exception):
        process.wait(5)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def command(
    arguments: Sequence[str],
    *,
    format: str | Mapping[str, str] = "npy",
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | Mapping[str, Parser] | None = None,
    templates: Any = None,
    timeout: float | None = None,
    retries: int = 0,
    scratch: str | os.PathLike[str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    keep: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> Command:
    """Make a function of an executable or a script, for `external`.

    Parameters
    ----------
    arguments
        The program and its arguments. A relative path of the program (``./model``) starts at the
        folder of the caller, or at ``cwd``; other arguments are handed on as they are.
        ``{input}`` and ``{output}`` stand for files (``{input_x}`` and ``{output_y}`` for those
        named in ``inputs`` and ``outputs``), ``{x}`` for the value itself, ``{folder}`` for the
        scratch folder. Without ``{input}`` the input goes to standard input, without ``{output}``
        the output is read from standard output.
    format
        ``"npy"``, ``"json"`` (a number or nested lists, or an object: a dict or dataclass of such),
        ``"csv"`` or ``"text"`` (numbers between blanks). All are written with every digit; tell
        `external` with ``noise=`` how many the program writes. A dict by the names of inputs and
        outputs gives each file its own.
    inputs, outputs
        Names, for programs with several. ``outputs`` may be a dict of names and parsers
        (`adjoint.external.parsers`: regular expressions, columns, paths in JSON, NetCDF, HDF5); the
        function then returns a dict.
    templates
        A text file in which ``{{x}}`` stands for the value of an input (also ``{{x:.6e}}`` and
        ``{{x[2]}}``), or a dict of names and such files: written, filled in, to the folder the
        program runs in.
    timeout
        Seconds after which the program, and all it started, is ended.
    retries
        How often a program that failed or took too long is run again.
    scratch
        Where scratch folders are made; the system's folder for temporary files by default.
    cwd, env
        The folder it runs in (the scratch folder by default), and additions to its environment.
    keep
        A folder in which the folder of each run is kept, with standard output and error, and a
        line for each run in ``journal.jsonl``.
    resume
        Whether a run on the same inputs that is kept there is read instead of being made again.

    Returns
    -------
    Command
        A function of arrays; ``workers`` is an option of `external`.
    """
    return Command(
        arguments,
        format=format,
        inputs=None if inputs is None else list(inputs),
        outputs=outputs if outputs is None or isinstance(outputs, Mapping) else list(outputs),
        templates=templates,
        timeout=timeout,
        retries=retries,
        scratch=scratch,
        cwd=cwd,
        env=env,
        keep=keep,
        resume=resume,
    )
