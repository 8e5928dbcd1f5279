"""Run random sequences of calls that move, share and change memory, and check what must hold.

    python -m tools.fuzz --steps 1000000 --jobs 2       # a long run
    python -m tools.fuzz --minutes 10 --compile         # through ad.compile, beside eager
    python -m tools.fuzz --sanitized --steps 100000     # the _core of build-asan must be in place
    python -m tools.fuzz --replay 7/123                 # one sequence of seed 7

Views, in-place ops, `resize_`, `set_`, `out=`, `as_strided`, files, derivatives and every op of the
registry run on a pool of tensors with extreme numbers among their arguments, in child processes.
After each step every tensor must lie inside its storage, and the bytes around arrays from outside
and all memory that the step does not write must be unchanged (fuzzing/world.py). A violation, a
signal, a step that does not end or a report of a sanitizer is a failure: the steps are made as few
as possible and written as a program that shows it.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools.fuzzing.sanitized import restart

if __name__ == "__main__" and "--sanitized" in sys.argv:
    restart("tools.fuzz")  # a sanitized _core cannot be loaded without its libraries

from adjoint import _core
from tools.fuzzing import compiled
from tools.fuzzing.child import STALL, Child, Failure, Log, outcome, shrunk
from tools.fuzzing.steps import Steps
from tools.fuzzing.world import Step, Violation, World

LENGTH = 40  # steps of a sequence
# What a plain build refuses with MemoryError ends a sanitized process.
OUT_OF_MEMORY = "ERROR: AddressSanitizer: allocator is out of memory"
Run = Callable[[list[Step], Log], None]


# --- what a child does ----------------------------------------------------------------------------
def sequence(name: str, log: Log) -> None:
    """Draw and run one sequence."""
    world = World()
    steps = Steps(random.Random(name), world)
    log.begin()
    done, begun = log.counts
    for i in range(LENGTH):
        step = steps.draw()
        log.note(step)
        world.run(step)
        log.counts = (done + i + 1, begun)
    log.counts = (done + LENGTH, begun + 1)


def repeat(steps: list[Step], log: Log) -> None:
    """Run given steps."""
    world = World()
    for i, step in enumerate(steps):
        log.note(step)
        world.run(step)
        log.counts = (i + 1, 0)


def work(
    names: Iterator[str],
    one: Callable[[str, Log], None],
    steps: int,
    end: float,
    known: Sequence[str] = (),
) -> Callable[[Log], None]:
    """The work of a child: sequences until there are enough steps or the time is over."""

    def run(log: Log) -> None:
        while log.counts[0] < steps and time.monotonic() < end:
            try:
                one(next(names), log)
            except Violation as violation:
                if violation.kind not in known:
                    raise
                log.counts = (log.counts[0], log.counts[1] + 1)

    return run


# --- what the parent does -------------------------------------------------------------------------
class Hunt:
    """Keeps children running until the steps are done, and gathers what they find."""

    def __init__(self, arguments: argparse.Namespace, show: Callable[[str], None] = print) -> None:
        self.arguments, self.show = arguments, show
        self.one = compiled.sequence if arguments.compile else sequence
        self.run: Run = compiled.repeat if arguments.compile else repeat
        self.failures: dict[tuple[str, str], Failure] = {}
        self.repeated = 0
        self.start = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether enough was found."""
        return len(self.failures) >= self.arguments.failures

    def go(self, progress: Callable[[int, int], None]) -> int:
        """Run everything; the number of steps that were done."""
        jobs, logs = self.arguments.jobs, [Log() for _ in range(self.arguments.jobs)]
        share = -(-self.arguments.steps // jobs)
        end = self.start + self.arguments.minutes * 60
        children = {job: self._child(job, logs[job], share, end) for job in range(jobs)}
        try:
            while children:
                time.sleep(0.05)
                for job, child in list(children.items()):
                    code = child.poll(self.arguments.stall)
                    if code is None:
                        continue
                    del children[job]
                    if (failure := child.failure(code)) is not None:
                        failure.sequence = f"{self.arguments.seed}/{self._index(job, child.log)}"
                        self._found(failure)
                        steps, begun = child.log.counts
                        child.log.counts = (steps, begun + 1)  # go on behind it
                        if not self.over:
                            children[job] = self._child(job, child.log, share, end)
                if self.over:
                    break
                progress(sum(log.counts[0] for log in logs), len(self.failures))
        finally:
            for child in children.values():
                child.end()
        return sum(log.counts[0] for log in logs)

    def _index(self, job: int, log: Log) -> int:
        return job + self.arguments.jobs * log.counts[1]

    def _child(self, job: int, log: Log, steps: int, end: float) -> Child:
        seed, first = self.arguments.seed, self._index(job, log)
        names = (f"{seed}/{i}" for i in itertools.count(first, self.arguments.jobs))
        return Child(work(names, self.one, steps, end, self.arguments.known), log)

    def _found(self, failure: Failure) -> None:
        if failure.kind.startswith(OUT_OF_MEMORY):
            return
        if failure.key in self.failures:
            self.repeated += 1
            return
        self.failures[failure.key] = failure  # also how it looks before it has been made small
        small = shrunk(self.run, failure, self.arguments.shrink)
        if small.key != failure.key and small.key in self.failures:
            self.repeated += 1
            return
        self.failures[small.key] = small
        if small.key != failure.key:
            del self.failures[failure.key]
        text = self.program(small)
        self.show(f"\n{text}")
        if self.arguments.write:
            folder = Path(self.arguments.write)
            folder.mkdir(parents=True, exist_ok=True)
            number = next(n for n in itertools.count(1) if not list(folder.glob(f"{n:03}*.py")))
            (folder / f"{number:03}.py").write_text(text)

    def program(self, failure: Failure) -> str:
        """A failure as a program."""
        make = compiled.program if self.arguments.compile else program
        return make(failure)


def program(failure: Failure, raising: list[bool] | None = None) -> str:
    """A failure as a Python program that shows it; ``raising``: which of its steps raise."""
    *before, last = failure.steps or [Step("pass")]
    raising = _raising(before) if raising is None else raising
    lines = [
        f"# {failure.kind}: {' '.join(failure.text.split())[:300]}",
        f"# seed {failure.sequence}; from the repository: PYTHONPATH=python:. python FILE",
        "import contextlib, copy, gc, pickle  # noqa: E401, F401",
        "import numpy as np",
        "import adjoint as ad",
        "import adjoint.nn.functional as F",
        "from tools.fuzzing.world import checked, guarded, loaded",
        "",
    ]
    for step, raises in zip(before, raising, strict=True):
        if raises:
            lines.append(f"with contextlib.suppress(Exception):\n    {step.line}")
        else:
            lines.append(step.line)
    target = last.line.partition(" = ")[0]
    words = [f"writes={last.writes!r}"] if last.writes else []
    if last.model:
        words += [f"target={target!r}", f"model={last.model!r}"]
    if last.same:
        words.append(f"same={last.same!r}")
    lines.append(f"with checked({', '.join(['globals()', *words])}):\n    {last.line}")
    return "\n".join(lines) + "\n"


def _raising(steps: list[Step]) -> list[bool]:
    """Which of the steps raise an error, found out in a child."""
    raised = Log()

    def run(_: list[Step], log: Log) -> None:
        world = World()
        for step in steps:
            raised.note((world.run(step) is not None,))

    outcome(run, steps, STALL)
    told = [entry[0] for entry in raised.entries()]
    return told + [False] * (len(steps) - len(told))


# --- the command ----------------------------------------------------------------------------------
def refuse_plain_build() -> None:
    """End the program if the _core is not a sanitized one."""
    if b"__asan_init" not in Path(str(_core.__file__)).read_bytes():
        raise SystemExit(
            f"{_core.__file__} is not sanitized (fix: ninja -C build-asan; see CONTRIBUTING.md)"
        )


def shown(total: int, seconds: float) -> tuple[Callable[[int, int], None], Callable[[], None]]:
    """A function to tell progress to, and one that ends it."""
    if not sys.stdout.isatty():
        last, start = [time.monotonic()], time.monotonic()

        def tell(steps: int, failures: int) -> None:
            if time.monotonic() - last[0] > 10:
                last[0] = time.monotonic()
                print(
                    f"{steps:,} steps in {last[0] - start:.0f} s, {failures} failures", flush=True
                )

        return tell, lambda: None
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    # No thread that refreshes: the process forks.
    bar = Progress(
        BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), auto_refresh=False
    )
    task, start = bar.add_task("", total=1.0), time.monotonic()
    bar.start()

    def draw(steps: int, failures: int) -> None:
        share = max(steps / total, (time.monotonic() - start) / seconds)
        bar.update(
            task, completed=min(share, 1.0), description=f"{steps:,} steps, {failures} failures"
        )
        bar.refresh()

    return draw, bar.stop


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200_000, help="how many in all")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="end after this time")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one each time")
    parser.add_argument("--jobs", type=int, default=1, help="child processes at a time")
    parser.add_argument("--compile", action="store_true", help="through ad.compile, beside eager")
    parser.add_argument("--sanitized", action="store_true", help="set up what build-asan needs")
    parser.add_argument("--replay", metavar="SEED/I", help="run one sequence again and show it")
    parser.add_argument("--failures", type=int, default=10, help="end after so many kinds of them")
    parser.add_argument("--known", metavar="KIND", nargs="+", default=(), help="kinds to pass over")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds to drop steps of one")
    parser.add_argument("--stall", type=float, default=STALL, help="seconds that a step may take")
    parser.add_argument("--write", metavar="FOLDER", help="also write programs of failures there")
    arguments = parser.parse_args(words)
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(10**6)
    return arguments


def replay(arguments: argparse.Namespace) -> int:
    """Run one sequence again; show its steps, and the failure made small."""
    hunt = Hunt(arguments)
    child = Child(lambda log: hunt.one(arguments.replay, log))
    while (code := child.poll(arguments.stall)) is None:
        time.sleep(0.01)
    for entry in child.log.entries():
        print(*entry[:1] if entry[0] != "violation" else entry)
    if (failure := child.failure(code)) is None:
        print("nothing happened")
        return 0
    failure.sequence = arguments.replay
    print("\n" + hunt.program(shrunk(hunt.run, failure, arguments.shrink)))
    return 1


def main(words: list[str] | None = None) -> int:
    """Run from the command line."""
    arguments = parsed(words)
    if arguments.sanitized:
        refuse_plain_build()
    if arguments.replay:
        return replay(arguments)
    print(f"seed {arguments.seed}", flush=True)
    hunt = Hunt(arguments)
    tell, end = shown(arguments.steps, arguments.minutes * 60)
    try:
        steps = hunt.go(tell)
    except KeyboardInterrupt:
        steps = 0
    finally:
        end()
    seconds = time.monotonic() - hunt.start
    print(f"seed {arguments.seed}: {steps:,} steps in {seconds:.0f} s ({steps / seconds:,.0f}/s), "
          f"{len(hunt.failures)} kinds of failures, {hunt.repeated} more like them")  # fmt: skip
    return 1 if hunt.failures else 0


if __name__ == "__main__":
    sys.exit(main())
