"""What is measured. A new file here is a new subject; add it to `SUBJECTS`.

A workload is a function of the library: `setup(lib)` prepares inputs from fixed NumPy arrays and
returns `work`, which uses only names that adjoint and PyTorch share.
"""

from __future__ import annotations

from benchmarks.harness import Workload
from benchmarks.workloads import (
    along_axes,
    bodies,
    compiled,
    composites,
    elementwise,
    everyday,
    functions,
    layers,
    linear_algebra,
    loops,
    mass_spring,
    matmul,
    mlp,
    products,
    recurrence,
    signals,
    transformer,
    transforms,
    unary,
    windows,
)

SUBJECTS = (
    products,
    functions,
    mass_spring,
    recurrence,
    bodies,
    composites,
    elementwise,
    matmul,
    unary,
    layers,
    along_axes,
    linear_algebra,
    signals,
    transformer,
    windows,
    mlp,
    everyday,
    transforms,
    compiled,
    loops,
)
WORKLOADS: tuple[Workload, ...] = tuple(w for subject in SUBJECTS for w in subject.WORKLOADS)


def find(name: str) -> Workload:
    """Return the workload of that name."""
    return next(w for w in WORKLOADS if w.name == name)
