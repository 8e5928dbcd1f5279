"""
A Fortran subroutine
====================

A Fortran subroutine in the graph: arrays by columns, everything by address.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import adjoint as ad

SOURCE = """
subroutine diffuse(n, m, steps, kappa, before, after)
  ! Explicit steps of heat conduction on a plate whose edges keep their temperature.
  implicit none
  integer, intent(in) :: n, m, steps
  double precision, intent(in) :: kappa, before(n, m)
  double precision, intent(out) :: after(n, m)
  double precision :: old(n, m)
  integer :: i, j, k
  after = before
  do k = 1, steps
    old = after
    do j = 2, m - 1
      do i = 2, n - 1
        after(i, j) = old(i, j) + kappa * (old(i-1, j) + old(i+1, j) &
                      + old(i, j-1) + old(i, j+1) - 4 * old(i, j))
      end do
    end do
  end do
end subroutine diffuse
"""

if shutil.which("gfortran") is None:
    sys.exit("this example compiles Fortran: install gfortran (Debian: apt-get install gfortran)")

folder = tempfile.TemporaryDirectory()
source, library = Path(folder.name, "diffuse.f90"), Path(folder.name, "libdiffuse.so")
source.write_text(SOURCE)
subprocess.run(["gfortran", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)

parameters = ["int n", "int m", "int steps", "double kappa", "in double[n,m] before"]
diffuse = ad.ctypes_function(
    library, "diffuse", [*parameters, "out double[n,m] after"], fortran=True
)

STEPS = 10
plate = ad.tensor(np.random.default_rng(0).random((5, 4)), requires_grad=True)
kappa = ad.tensor(0.1, dtype=ad.float64, requires_grad=True)
after = diffuse(STEPS, kappa, plate)
ours = ad.autograd.grad((after**2).sum(), (kappa, plate))

# The same in adjoint alone.
state = plate
for _ in range(STEPS):
    inside = state[1:-1, 1:-1]
    around = state[:-2, 1:-1] + state[2:, 1:-1] + state[1:-1, :-2] + state[1:-1, 2:]
    new = state.clone()
    new[1:-1, 1:-1] = inside + kappa * (around - 4 * inside)
    state = new
exact = ad.autograd.grad((state**2).sum(), (kappa, plate))

print("values agree:", ad.allclose(after, state, rtol=1e-12))
print("d loss / d kappa", ours[0].item(), "exactly", exact[0].item())
print(
    "gradient is right:",
    all(ad.allclose(a, b, rtol=1e-7) for a, b in zip(ours, exact, strict=True)),
)
folder.cleanup()
