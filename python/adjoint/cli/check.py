"""`adjoint check module:function`: is its derivative right?

The inputs come from the command line, from the function's ``check_inputs``, or from defaults and
annotations. Exit status: 0 right, 1 wrong, 2 bad usage or an error of the function, 3 undecided.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

STATUS = {"right": 0, "wrong": 1, "undecided": 3}


class Usage(Exception):
    """What the caller did wrong, and how to do it right."""


def add_to(subparsers: Any) -> None:
    """Add the subcommand's arguments."""
    parser = subparsers.add_parser(
        "check",
        help="check the derivative of a function",
        description="Compare the derivatives of a function with differences, forward mode and its "
        "Taylor series. Exit status: 0 right, 1 wrong, 2 bad usage or an error of the function, "
        "3 undecided (noise, a jump).",
    )
    parser.add_argument("function", help="module:function or path/to/file.py:function")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        help="an argument as Python writes it: 2.0 or '[0.5, 1.5]'; once per argument",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="N,M",
        help="an argument of random numbers of this shape (empty: no axes); once per argument",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random numbers (default 0)")
    parser.add_argument("--dtype", default="float64", help="of the inputs (default float64)")
    parser.add_argument("--order", type=int, choices=(1, 2), default=2, help="of the derivative")
    parser.add_argument("--tolerance", type=_fraction, help="the relative error that is wrong")
    parser.add_argument(
        "--bounds",
        type=_pair,
        metavar="LOW,HIGH",
        help="never evaluate outside; one side may be left empty (--bounds=0, for none above)",
    )
    parser.add_argument("--plot", metavar="FILE", help="write the plots into a PNG file")
    parser.add_argument("--no-plot", action="store_true", help="no plots in the terminal")
    parser.set_defaults(execute=execute)


def _fraction(text: str) -> float:
    number = float(text)
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, got {text}")
    return number


def _pair(text: str) -> tuple[float | None, float | None]:
    try:
        low, high = (float(part) if part.strip() else None for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be LOW,HIGH such as 0,1; got {text!r}") from None
    return low, high


def execute(arguments: argparse.Namespace) -> int:
    """Find the function and its inputs, check, print."""
    try:
        function = _load(arguments.function)
        inputs = _inputs(function, arguments)
    except Usage as error:
        print(f"adjoint check: {error}", file=sys.stderr)
        return 2
    return _check(function, inputs, arguments)


def _check(function: Callable[..., Any], inputs: tuple[Any, ...], a: argparse.Namespace) -> int:
    from rich.console import Console

    import adjoint
    from adjoint import plot
    from adjoint.check._text import verdict_line

    name = a.function.rpartition(":")[2]
    try:
        report = adjoint.check(
            function,
            *inputs,
            order=a.order,
            tolerance=a.tolerance,
            seed=a.seed,
            bounds=a.bounds,
            name=name,
        )
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        _show(error, f"adjoint check: {name} could not be checked: it raised")
        return 2
    console = Console()
    console.print(report.__rich__(), soft_wrap=True)
    if not a.no_plot and report.first.taylor is not None:
        width = max(20, min(console.width - 10, 72))
        console.print("\n" + report.text_plot(width), highlight=False, markup=False)
    if a.plot:
        try:
            plot.save_check(a.plot, report)
            console.print(f"\nplots: {a.plot}", soft_wrap=True, highlight=False, markup=False)
        except plot.NoMatplotlib as error:
            print(f"adjoint check: no picture {a.plot}: {error}", file=sys.stderr)
        except OSError as error:
            print(f"adjoint check: cannot write '{a.plot}': {error.strerror}", file=sys.stderr)
            return 2
    # Once more, since the report may have scrolled away by now.
    console.print()
    console.print(verdict_line(report), soft_wrap=True)
    return STATUS[report.verdict]


# --- the function ---------------------------------------------------------------------------------


def _load(text: str) -> Callable[..., Any]:
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise Usage(f"'{text}' is not module:function, such as 'mymodel:loss' or 'model.py:loss'")
    module = _module(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            known = f"; it has {', '.join(near[:12])}" if near else ""
            raise Usage(f"'{place}' has no '{name}'{known}")
        found = getattr(found, part)
    from adjoint.autograd import Function

    if isinstance(found, type) and issubclass(found, Function):
        applied: Callable[..., Any] = found.apply
        return applied
    if not callable(found):
        raise Usage(f"'{text}' is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _module(place: str) -> Any:
    sys.path.insert(0, os.getcwd())
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        path = Path(place)
        if not path.is_file():
            raise Usage(f"there is no file '{place}'")
        sys.path.insert(0, str(path.resolve().parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    except Usage:
        raise
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise Usage(f"there is no module '{error.name}' here or on the path") from None
        _show(error, f"adjoint check: importing '{place}' raised")
        raise SystemExit(2) from None
    except Exception as error:
        _show(error, f"adjoint check: importing '{place}' raised")
        raise SystemExit(2) from None


# --- its inputs -----------------------------------------------------------------------------------


def _inputs(function: Callable[..., Any], a: argparse.Namespace) -> tuple[Any, ...]:
    import adjoint as ad

    dtype = getattr(ad, a.dtype, None)
    if not isinstance(dtype, ad.dtype) or not (dtype.is_floating_point or dtype.is_complex):
        raise Usage(f"--dtype {a.dtype} is not a floating-point dtype; try float64 or float32")
    if a.input and a.shape:
        raise Usage("--input and --shape are two ways to give all arguments; use one of them")
    ad.manual_seed(a.seed)
    if a.input:
        return tuple(_parsed(text, dtype) for text in a.input)
    if a.shape:
        return tuple(_drawn(text, dtype) for text in a.shape)
    given = getattr(function, "check_inputs", None)
    if given is None and hasattr(function, "__self__"):
        given = getattr(function.__self__, "check_inputs", None)
    if given is not None:
        found = given() if callable(given) else given
        return found if isinstance(found, tuple) else (found,)
    return _guessed(function, dtype)


def _parsed(text: str, dtype: Any) -> Any:
    import adjoint as ad

    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise Usage(f"--input {text}: not a number or a list as Python writes them") from None
    return _converted(value, ad, dtype)


def _converted(value: Any, ad: Any, dtype: Any) -> Any:
    """Floats and lists of numbers as tensors; dicts and tuples of them; the rest as it is."""
    if isinstance(value, dict):
        return {key: _converted(item, ad, dtype) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_converted(item, ad, dtype) for item in value)
    if isinstance(value, (float, complex, list)):
        try:
            wide = ad.complex128 if isinstance(value, complex) else dtype
            return ad.tensor(value, dtype=wide)
        except (TypeError, ValueError, RuntimeError) as error:
            raise Usage(f"--input {value}: {error}") from None
    return value


def _drawn(text: str, dtype: Any) -> Any:
    import adjoint as ad

    try:
        shape = [int(part) for part in text.replace("x", ",").split(",") if part.strip()]
        if any(n < 0 for n in shape):
            raise ValueError
    except ValueError:
        raise Usage(f"--shape {text}: expected sizes such as 3 or 4,5") from None
    return ad.randn(shape, dtype=dtype)


def _guessed(function: Callable[..., Any], dtype: Any) -> tuple[Any, ...]:
    """Defaults where there are some, random numbers for what is annotated as Tensor or float."""
    import adjoint as ad

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    found: list[Any] = []
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY):
            continue
        kind = (
            p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", "")
        )
        if p.default is not p.empty:
            found.append(_converted(p.default, ad, dtype))
        elif kind.rpartition(".")[2] == "Tensor":
            found.append(ad.randn(3, dtype=dtype))
        elif kind == "float":
            found.append(ad.randn((), dtype=dtype))
        else:
            raise Usage(
                f"no value for the argument '{p.name}'.\n"
                "  fix: --shape or --input once per argument; or give the function inputs:\n"
                "         function.check_inputs = lambda: (x, ...)"
            )
    if not found:
        raise Usage(
            "no inputs: the function has no arguments with defaults or annotations.\n"
            "  fix: --shape or --input once per argument; or give the function inputs:\n"
            "         function.check_inputs = lambda: (x, ...)"
        )
    return tuple(found)


# --- errors of the user's program -----------------------------------------------------------------


def _show(error: BaseException, title: str) -> None:
    """A traceback from the first frame of the user's own program."""
    print(title, file=sys.stderr)
    ours = str(Path(__file__).resolve().parents[1])
    found = error.__traceback__
    while found is not None and _hidden(found, ours):
        found = found.tb_next
    lines = traceback.format_exception(type(error), error, found)
    sys.stderr.write("".join(lines))


def _hidden(frame: TracebackType, ours: str) -> bool:
    name = frame.tb_frame.f_code.co_filename
    return name.startswith((ours, "<frozen importlib")) or os.sep + "importlib" + os.sep in name
