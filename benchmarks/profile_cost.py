r"""What `ad.profile()` costs: `python -m benchmarks.profile_cost [--rounds N] [--only NAME]`.

Rounds with and without a profile alternate in one process, and the fastest of each is compared, in
CPU time of the thread, since other programs may have the machine meanwhile. On a busy machine count
instructions instead, which repeat to a part in a thousand, with and without `--profiled`:

    valgrind --tool=callgrind --toggle-collect=PyObject_ASCII \
        python -m benchmarks.profile_cost --count three 20 [--profiled]
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import adjoint as ad
from benchmarks.workloads import mass_spring, mlp, transformer

MARK = 0.05  # of a run


def tiny_gpt() -> Callable[[], Any]:
    """Return a step of two layers of 16, for 2 x 8 words."""
    sizes = {"LAYERS": 2, "WIDTH": 16, "HEADS": 2, "LENGTH": 8, "BATCH": 2, "WORDS": 17}
    before = {name: getattr(transformer, name) for name in sizes}

    def with_sizes(values: dict[str, int]) -> None:
        for name, value in values.items():
            setattr(transformer, name, value)

    with_sizes(sizes)
    step = transformer.step(ad)
    with_sizes(before)

    def work() -> Any:
        with_sizes(sizes)
        try:
            return step()
        finally:
            with_sizes(before)

    return work


def thousand() -> Callable[[], Any]:
    """Return a chain of operations on a thousand numbers, and its gradient."""
    x = ad.randn(1000, requires_grad=True)

    def work() -> Any:
        y = x
        for _ in range(20):
            y = (y * 0.5 + x).tanh() * x
        y.sum().backward()

    return work


def three(steps: int = 500, chained: bool = True) -> Callable[[], Any]:
    """Return a loop of products of three numbers, and its gradient."""
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = ad.tensor([1.0, 1.0, 1.0], requires_grad=True)

    def work() -> Any:
        y = x
        for _ in range(steps):
            y = y * w
        y.sum().backward()

    def unrecorded() -> Any:
        with ad.no_grad():
            y = x
            for _ in range(2 * steps):
                y = y * w

    return work if chained else unrecorded


def scalars() -> Callable[[], Any]:
    """Return a loop of four operations on three numbers, and its gradient."""
    x = ad.tensor([0.1, 0.2, 0.3], requires_grad=True)
    b = ad.tensor([1.2, 1.1, 1.0], requires_grad=True)

    def work() -> Any:
        a = x
        for _ in range(300):
            a = a.sin() * b + 0.1 - x
        a.sum().backward()

    return work


SUBJECTS: dict[str, Callable[[], Callable[[], Any]]] = {
    "mlp32": lambda: mlp.setup(32)(ad),
    "mlp1": lambda: mlp.setup(1)(ad),
    "gpt": tiny_gpt,
    "thousand": thousand,
    "mass_spring": lambda: mass_spring.setup(ad),
    "three": three,
    "three_mixed": scalars,
    "three_unrecorded": lambda: three(chained=False),
}


def seconds(work: Callable[[], Any], repeats: int, profiled: bool) -> float:
    """Return the thread's CPU time of one call, of so many that follow one another."""
    profile = ad.profile()
    if profiled:
        profile.start()
        for _ in range(repeats):  # what is new is looked at closely, once
            work()
    start = time.thread_time()
    for _ in range(repeats):
        work()
    took = time.thread_time() - start
    if profiled:
        profile.stop()
    return took / repeats


def measure(name: str, rounds: int, length: float) -> tuple[float, float]:
    """Return the seconds of a call without and with a profile."""
    work = SUBJECTS[name]()
    for _ in range(3):
        work()
    repeats = max(1, int(length / max(seconds(work, 3, False), 1e-6)))
    best = [float("inf"), float("inf")]
    for i in range(2 * rounds):
        gc.collect()
        best[i % 2] = min(best[i % 2], seconds(work, repeats, i % 2 == 1))
    return best[0], best[1]


class Counted:
    """Calls of a function where ``--toggle-collect=PyObject_ASCII`` counts instructions."""

    def __init__(self, work: Callable[[], Any], calls: int) -> None:
        self.work, self.calls = work, calls

    def __repr__(self) -> str:
        for _ in range(self.calls):
            self.work()
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.05, help="length of a round")
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--count", nargs=2, metavar=("NAME", "CALLS"), help="only call it")
    parser.add_argument("--profiled", action="store_true", help="with --count: while profiled")
    args = parser.parse_args()
    ad.set_num_threads(1)
    gc.freeze()
    if args.count:
        gc.disable()  # it would come in some counts, and not in others
        work = SUBJECTS[args.count[0]]()
        if args.profiled:
            # By allocations of 100 ns each: under valgrind, everything seems to take long.
            ad._core._tally_start(False, 100)
        for _ in range(int(args.count[1])):  # the first calls of each operation are all looked at
            work()
        ascii(Counted(work, int(args.count[1])))
        return
    for name in SUBJECTS:
        if args.only and args.only not in name:
            continue
        without, during = measure(name, args.rounds, args.seconds)
        cost = during / without - 1
        mark = "yes" if cost < MARK else "NO"
        print(f"profile: {name:18} {without * 1e6:9.1f} us  {cost:+6.1%}  < {MARK:.0%}: {mark}")


if __name__ == "__main__":
    main()
