"""On real MPI: a map over MPIPoolExecutor, and halos of blocks on Cartesian grids."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adjoint import _mpiexec
from tests.children import WITH_CHECKOUT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpiexec") is None, reason="no mpiexec"),
]

HALOS = """
import sys
import numpy as np
import adjoint as ad
from mpi4py import MPI

dims, periodic, width = eval(sys.argv[1])
grid = MPI.COMM_WORLD.Create_cart(dims, [periodic] * len(dims))
place = grid.Get_coords(grid.rank)
ad.manual_seed(0)
size = [4 * n for n in dims] + [3]
field = ad.randn(*size, dtype=ad.float64)
weight = ad.randn(*[n + 2 * width * d for n, d in zip(size, dims)], 3, dtype=ad.float64)[..., 0]


def block_of(whole, n, overlap=0):
    cut = [slice((n + overlap) * p, (n + overlap) * (p + 1)) for p in place]
    return whole[tuple(cut)].clone()


# What each rank sees: its block with halos, times numbers of its own, squared and summed.
def padded(whole):
    array = whole.movedim(-1, 0).unsqueeze(0)
    pads = [width] * (2 * len(dims))
    mode = "circular" if periodic else "constant"
    return ad.nn.functional.pad(array, pads, mode=mode)[0].movedim(0, -1)


whole = field.clone().requires_grad_()
total, outer = 0, padded(whole)
for rank in range(grid.size):
    at = grid.Get_coords(rank)
    seen = outer[tuple(slice(4 * p, 4 * p + 4 + 2 * width) for p in at)]
    mine = weight[tuple(slice((4 + 2 * width) * p, (4 + 2 * width) * (p + 1)) for p in at)]
    total = total + (seen**2 * mine[..., :3]).sum()
(wanted,) = ad.autograd.grad(total, whole, create_graph=True)
(wanted_second,) = ad.autograd.grad((wanted**3).sum(), whole)

block = block_of(field, 4).requires_grad_()
mine = block_of(weight, 4, 2 * width)
seen = ad.parallel.halo_exchange(block, grid, width)
part = (seen**2 * mine[..., :3]).sum()
assert np.isclose(grid.allreduce(float(part)), float(total))
(found,) = ad.autograd.grad(part, block, create_graph=True)
assert ad.allclose(found, block_of(wanted, 4)), grid.rank
(second,) = ad.autograd.grad((found**3).sum(), block)
assert ad.allclose(second, block_of(wanted_second, 4)), grid.rank
for bad in (lambda: ad.parallel.halo_exchange(block, grid, 9),
            lambda: ad.parallel.halo_exchange(block[0, ..., 0], grid, axes=[0] * 5)):
    try:
        bad()
    except ValueError:
        continue
    raise AssertionError("not refused")
print("fine")
"""

MAP = """
import adjoint as ad
from mpi4py.futures import MPIPoolExecutor
from tests.unit.parallel.test_map import same_on

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        same_on(pool)
    print("fine")
"""


def mpiexec(count: int, *command: str) -> str:
    launch = [str(_mpiexec.find()), "-n", str(count)]
    done = subprocess.run(
        [*launch, sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=120,
        env=WITH_CHECKOUT | _mpiexec.OPEN_MPI,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "case", [([4], True, 1), ([2, 2], True, 2), ([2, 2], False, 1), ([2], False, 3)], ids=str
)
def test_halos_are_the_borders_of_neighbours(case: tuple[object, ...], tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    script = tmp_path / "halos.py"
    script.write_text(HALOS)
    count = 1
    for n in case[0]:  # type: ignore[attr-defined]
        count *= n
    printed = mpiexec(count, str(script), repr(case))
    assert "".join(printed.split()) == "fine" * count  # mpiexec may mix the lines


def test_a_map_on_mpi(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    script = tmp_path / "map_on_mpi.py"
    script.write_text(MAP)
    assert "fine" in mpiexec(3, "-m", "mpi4py.futures", str(script))
