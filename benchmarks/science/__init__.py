"""The problems of examples/science beside the same in JAX or SciPy.

`python -m benchmarks.science` runs them. Each module has one problem: `ours` and `theirs` make the
work that is timed, a value and its gradient as arrays, on the same numbers; `OURS` and `THEIRS` are
the functions whose lines are counted. `race.py` is what times them.
"""
