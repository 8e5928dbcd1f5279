"""`python -m benchmarks.science [--only kalman] [--seconds 2] [--write]`."""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path

# Before JAX is imported: one thread for each.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

from benchmarks.report import duration  # noqa: E402
from benchmarks.science.race import lines_of, run  # noqa: E402

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
NAMES.remove("race")
PAGE = Path(__file__).parents[2] / "docs" / "comparisons.md"
BEGIN, END = "<!-- table: start -->", "<!-- table: end -->"


def row(name: str, seconds: float) -> str:
    case = importlib.import_module(f"benchmarks.science.{name}")
    race = run(case.ours(), case.theirs(), seconds, getattr(case, "WALL", False))
    allowed = getattr(case, "AGREE", 1e-6)
    if not race.value_differs <= allowed or not race.gradient_differs <= allowed:
        raise SystemExit(
            f"{name}: the two differ by {race.value_differs:.1e} (value) and "
            f"{race.gradient_differs:.1e} (gradient), relative to the largest; allowed is {allowed}"
        )
    lines = f"{lines_of(case.OURS)} | {lines_of(case.THEIRS)}"
    times = f"{duration(race.ours)} | {duration(race.theirs)} | {race.ratio:.2f}"
    return f"| `{name}` | {case.PEER} | {lines} | {times} | {race.gradient_differs:.0e} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", help="names of problems, with blanks between")
    options.add_argument("--seconds", type=float, default=2.0, help="for each problem")
    options.add_argument("--write", action="store_true", help="into docs/comparisons.md")
    given = options.parse_args()
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    import jax

    import adjoint as ad

    ad.set_num_threads(1)
    jax.config.update("jax_enable_x64", True)
    names = given.only.split() if given.only else NAMES
    rows = [
        "| problem | beside | lines | their lines | time | their time | ratio | gradients differ |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        rows.append(row(name, given.seconds))
        print(rows[-1], flush=True)
    if given.write:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(
            before + BEGIN + "\n" + "\n".join(rows) + "\n" + END + after, encoding="utf-8"
        )


if __name__ == "__main__":
    main()
