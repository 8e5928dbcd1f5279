"""A fit through a program that reads and writes files: SciPy's `least_squares`, on two workers."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

import adjoint as ad
from benchmarks.science.race import Work
from examples.science import executable_fit as example

PEER, WALL, AGREE, STEP = "SciPy", True, 1e-4, 1e-4  # each to its differences
TRUTH, GUESS = np.log([0.6, 0.9, 0.5]), np.log([0.5, 0.5, 0.5])


def run(logs: Any, program: Path) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        values = dict(zip(("inflow", "valve", "leak"), np.exp(logs), strict=True))
        deck = "".join(f"{name} {float(value)!r}\n" for name, value in values.items())
        (Path(folder) / "tanks.inp").write_text(deck)
        done = subprocess.run(
            [sys.executable, "-IS", program], cwd=folder, capture_output=True, text=True, check=True
        )
    return np.array([[float(w) for w in line.split()[1:]] for line in done.stdout.splitlines()[1:]])


def fit(program: Path, measured: Any, guess: Any) -> Any:
    with ThreadPoolExecutor(2) as pool:
        return least_squares(
            lambda logs: (run(logs, program) - measured).ravel(),
            guess,
            jac="3-point",
            diff_step=STEP,
            ftol=1e-8,
            xtol=1e-6,
            workers=pool.map,
        )


def folder_and_data() -> Any:
    folder = tempfile.TemporaryDirectory()
    program = example.tanks(folder.name, step=STEP)
    measured = example.levels(program, ad.tensor(TRUTH))
    ad.manual_seed(0)
    return folder, program, measured + 0.01 * ad.randn(measured.shape, dtype=ad.float64)


def ours() -> Work:
    folder, program, measured = folder_and_data()

    def work() -> tuple[Any, Any]:
        assert folder
        found = example.fit(program, measured, ad.tensor(GUESS))
        return found.x, found.jac

    return work


def theirs() -> Work:
    folder, program, measured = folder_and_data()
    program.close()
    data = measured.numpy()

    def work() -> tuple[Any, Any]:
        found = fit(Path(folder.name) / "tanks.py", data, GUESS)
        return found.x, found.jac

    return work


OURS = [example.tanks, example.levels, example.fit]
THEIRS = [run, fit]
