"""Each problem prints its answer and draws a picture, at a small size."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

import adjoint as ad

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")

FOLDER = Path(__file__).parents[2] / "examples" / "science"
SMALL = {
    "eigenvalue_design": "--elements 6 --turns 5",
    "executable_fit": "",
    "implicit_heat": "--cells 8 --steps 4 --turns 4",
    "implicit_layer": "--buses 15 --turns 4",
    "kalman": "--steps 50",
    "lennard_jones": "--cells 3 --each 2",
    "map_laplace": "--cells 6 --turns 2",
    "optimal_control": "--steps 8",
    "robertson": "--times 8",
    "sde_ensemble": "--paths 50 --steps 40 --turns 2",
    "shallow_water": "--cells 8 --steps 10 --turns 4",
    "spline_geometry": "--controls 9 --panels 16",
}
# Those that take seconds; the gallery of the documentation runs and draws all but the executable.
LONG = {"executable_fit", "robertson"}
DRAW = os.environ.get("ADJOINT_PICTURES", "") not in ("", "0")


def test_all_problems_are_run() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == list(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_a_problem_prints_its_answer_and_draws_a_picture(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in LONG and not DRAW:
        pytest.skip("takes seconds: set ADJOINT_PICTURES=1")
    drawn = DRAW or name == "kalman"
    state = ad.get_rng_state()
    importlib.import_module(f"examples.science.{name}").main(
        SMALL[name].split() + ["--save", str(tmp_path)] * drawn
    )
    ad.set_rng_state(state)
    assert capsys.readouterr().out.strip()
    if drawn:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
