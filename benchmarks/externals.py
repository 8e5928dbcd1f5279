"""What it costs to call a function that autograd cannot see, beside the function itself.

`python -m benchmarks.externals [--smoke] [--write]`. The same NumPy function and derivative are put
into adjoint (`ad.external`), PyTorch (`autograd.Function`) and JAX (`pure_callback` with
`custom_vjp`), each in a process of its own, which take turns. NumPy alone is the floor: the calls
that any of them has to make, and for differences the arithmetic of a central difference. Figures
are CPU seconds of the best run (those of the workers: wall seconds). Libraries that are not
installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.harness import ROOT
from benchmarks.report import duration, machine, met_text

Work = Callable[[], Any]
LIBRARIES = ("numpy", "adjoint", "torch", "jax")
SMALL, LARGE = "2 elements", "1e6 elements"
FORWARD, GRADIENT, DIFFERENCES = "forward", "forward and vjp=", "forward and differences"
MODEL = "64 evaluations of 0.1 s on 2 workers"
CASES = [f"{size}, {what}" for size in (SMALL, LARGE) for what in (FORWARD, GRADIENT)]
CASES += [f"{LARGE}, {DIFFERENCES}", MODEL]


def f(x: Any) -> Any:
    return np.sin(x)


def f_vjp(u: Any, x: Any) -> Any:
    return u * np.cos(x)


def points(case: str) -> Any:
    n = 2 if case.startswith(SMALL) else 1_000_000
    return np.random.default_rng(0).normal(size=n)


# --- the same work in four libraries --------------------------------------------------------------


def numpy_work(case: str) -> Work | None:
    x = points(case)
    u = np.ones_like(x)

    def differences() -> Any:
        y, h = f(x), np.abs(x) * 6e-6
        up, down = x + h, x - h
        return y, u * ((f(up) - f(down)) / (up - down))

    def gradient() -> Any:
        return f(x), f_vjp(u, x)

    if case == MODEL:
        return None
    kinds = {FORWARD: lambda: f(x), GRADIENT: gradient, DIFFERENCES: differences}
    return kinds[case.partition(", ")[2]]


def adjoint_work(case: str) -> Work | None:
    import adjoint as ad

    if case == MODEL:
        return _model(ad)
    differ = case.endswith(DIFFERENCES)
    e = ad.external(f, elementwise=True) if differ else ad.external(f, vjp=f_vjp)
    return _torch_like(ad, e, case)


def torch_work(case: str) -> Work | None:
    import torch

    torch.set_num_threads(1)

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.from_numpy(f(x.detach().numpy()))

        @staticmethod
        def backward(ctx: Any, u: Any) -> Any:
            (x,) = ctx.saved_tensors
            return torch.from_numpy(f_vjp(u.numpy(), x.detach().numpy()))

    unknown = case == MODEL or case.endswith(DIFFERENCES)
    return None if unknown else _torch_like(torch, Sine.apply, case)


def _torch_like(lib: Any, e: Any, case: str) -> Work:
    x = lib.tensor(points(case), requires_grad=True)
    u = lib.ones_like(x)

    def gradient() -> Any:
        x.grad = None
        y = e(x)
        y.backward(u)
        return y, x.grad

    return (lambda: e(x)) if case.endswith(FORWARD) else gradient


def jax_work(case: str) -> Work | None:
    import jax

    if case == MODEL or case.endswith(DIFFERENCES):
        return None
    jax.config.update("jax_enable_x64", True)

    def call(function: Any, like: Any, *args: Any) -> Any:
        return jax.pure_callback(function, jax.ShapeDtypeStruct(like.shape, like.dtype), *args)

    @jax.custom_vjp
    def sine(x: Any) -> Any:
        return call(f, x, x)

    sine.defvjp(lambda x: (sine(x), x), lambda x, u: (call(f_vjp, x, u, x),))

    @jax.jit
    def gradient(x: Any, u: Any) -> Any:
        y, pull = jax.vjp(sine, x)
        return y, pull(u)[0]

    forward = jax.jit(sine)
    x = jax.numpy.asarray(points(case))
    u = jax.numpy.ones_like(x)
    if case.endswith(FORWARD):
        return lambda: forward(x).block_until_ready()
    return lambda: jax.block_until_ready(gradient(x, u))


def _model(ad: Any) -> Work:
    def model(x: Any) -> Any:
        time.sleep(0.1)
        return x**2

    e = ad.external(model, workers=2, probe=False)
    x = ad.linspace(1, 2, 32, dtype=ad.float64, requires_grad=True)
    y = e(x).sum()
    return lambda: ad.autograd.grad(y, x)  # 32 central differences


# --- processes that take turns --------------------------------------------------------------------


def serve(library: str) -> None:
    """Answer lines of `case` and `seconds` with the seconds per call, or null."""
    answers, sys.stdout = sys.stdout, sys.stderr
    works: dict[str, Work | None] = {}
    for line in sys.stdin:
        case, seconds = json.loads(line)
        if case not in works:
            works[case] = globals()[f"{library}_work"](case)
        work = works.pop(case) if case == MODEL else works[case]
        best = None if work is None else measured(work, 0.0 if case == MODEL else seconds)
        print(json.dumps(best), file=answers, flush=True)


def measured(work: Work, seconds: float) -> float:
    """Seconds per call: of one call if there is no time, else CPU seconds of the best run."""
    start = time.perf_counter()
    work()
    if not seconds:
        return time.perf_counter() - start
    start = time.process_time()
    work()
    once = max(time.process_time() - start, 1e-7)
    repetitions = max(1, int(seconds / 5 / once))
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(repetitions):
            work()
        best = min(best, (time.process_time() - start) / repetitions)
    return best


@contextmanager
def process(library: str) -> Iterator[Any]:
    command = [sys.executable, "-m", "benchmarks.externals", "--serve", library]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        stdin, stdout = child.stdin, child.stdout

        def ask(case: str, seconds: float) -> float | None:
            stdin.write(json.dumps([case, seconds]) + "\n")
            stdin.flush()
            line = stdout.readline()
            if not line:
                raise RuntimeError(f"the process of {library} ended during {case!r}")
            answer: float | None = json.loads(line)
            return answer

        yield ask
        stdin.close()


def run(rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """The best seconds per call, by case and library."""
    there = [n for n in LIBRARIES if importlib.util.find_spec(n) is not None]
    found: dict[str, dict[str, float]] = {case: {} for case in CASES}
    with ExitStack() as stack:
        asks = {name: stack.enter_context(process(name)) for name in there}
        for case in CASES:
            for _ in range(1 if case == MODEL else rounds):
                for name, ask in asks.items():
                    took = ask(case, seconds)
                    if took is not None:
                        found[case][name] = min(took, found[case].get(name, took))
    return found


# --- the table ------------------------------------------------------------------------------------

HEADER = ("work", *LIBRARIES, "adjoint over NumPy", "mark", "met")


def rows(found: dict[str, dict[str, float]]) -> list[tuple[str, ...]]:
    table = []
    for case, took in found.items():
        ours, floor = took["adjoint"], took.get("numpy")
        over, mark, met = "–", "–", None
        if case == MODEL:
            mark, met = "< 3.5 s", ours < 3.5
        elif floor is not None and case.startswith(LARGE):
            over = f"{100 * (ours / floor - 1):+.1f} %"
            mark, met = "≤ 5 %", ours <= 1.05 * floor
        elif floor is not None:
            over = duration(max(ours - floor, 1e-9))
            mark, met = ("< 10 us", ours - floor < 10e-6) if case.endswith(FORWARD) else (mark, met)
        cells = [duration(took[name]) if name in took else "–" for name in LIBRARIES]
        table.append((case, *cells, over, mark, met_text(met)))
    return table


def write(table: list[tuple[str, ...]], path: Path) -> None:
    lines = ["# Externals", "", (__doc__ or "").partition("\n\n")[2]]
    lines += [f"- {fact}" for fact in machine()] + [""]
    lines += ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(cells) + " |" for cells in table]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one short round")
    parser.add_argument("--write", action="store_true", help="write benchmarks/EXTERNALS.md")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
        return
    found = run(1, 0.05) if args.smoke else run(7, 0.5)
    table = Table(*HEADER)
    for cells in rows(found):
        table.add_row(*cells)
    console = Console()
    if not console.is_terminal:
        console.width = 140
    console.print(table)
    if args.write:
        write(rows(found), ROOT / "benchmarks" / "EXTERNALS.md")


if __name__ == "__main__":
    main()
