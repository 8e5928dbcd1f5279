"""
A routine of a C library
========================

A routine of a C library in the graph: compiled here, called through ctypes.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import adjoint as ad

SOURCE = """
#include <math.h>

/* The drag on n bodies, and the power that it takes from all of them. */
double drag(int n, const double *speed, double k, double *force) {
    double power = 0;
    for (int i = 0; i < n; i++) {
        force[i] = -k * fabs(speed[i]) * speed[i];
        power -= force[i] * speed[i];
    }
    return power;
}
"""

if shutil.which("cc") is None:
    sys.exit("this example compiles C: install a compiler (Debian: apt-get install gcc)")

folder = tempfile.TemporaryDirectory()
source, library = Path(folder.name, "drag.c"), Path(folder.name, "libdrag.so")
source.write_text(SOURCE)
subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)

# The parameters as the C compiler sees them; n is read off the array.
drag = ad.ctypes_function(
    library,
    "drag",
    ["int n", "in double[n] speed", "double k", "out double[n] force"],
    restype="double",
)

speed = ad.tensor([1.0, -2.0, 3.0], dtype=ad.float64, requires_grad=True)
k = ad.tensor(0.5, dtype=ad.float64, requires_grad=True)
power, force = drag(speed, k)
print("power", power.item(), "force", force.tolist())
print(drag.cost(speed, k))

loss = power + (force**2).sum()
ours = ad.autograd.grad(loss, (speed, k))

# The same in adjoint alone.
force = -k * speed.abs() * speed
exact = ad.autograd.grad(-(force * speed).sum() + (force**2).sum(), (speed, k))
print("d loss / d speed", ours[0])
print("d loss / d k    ", ours[1])
print(
    "gradient is right:",
    all(ad.allclose(a, b, rtol=1e-8) for a, b in zip(ours, exact, strict=True)),
)
folder.cleanup()
