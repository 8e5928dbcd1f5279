"""The problems of examples/science, beside the same in JAX or SciPy: `python -m benchmarks.science`.

Each module of this folder has one problem: `ours` and `theirs` make the work that is timed, a value
and its gradient as arrays, on the same numbers; `OURS` and `THEIRS` are the functions whose lines are
counted. `race.py` runs them.
"""
