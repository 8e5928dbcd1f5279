"""
A program that reads and writes files
=====================================

A program that reads a file and writes a file, in the graph, with two runs at a time.
"""

import sys
import tempfile
from pathlib import Path

import adjoint as ad

# It stands for any simulation: it knows nothing of adjoint, and writes nine digits.
PROGRAM = """
import math, sys

mass, stiffness, damping = (float(line) for line in open(sys.argv[1]))
decay = damping / (2 * mass)
frequency = math.sqrt(stiffness / mass - decay**2)
with open(sys.argv[2], "w") as output:
    for i in range(6):
        t = 0.5 * i
        output.write(f"{math.exp(-decay * t) * math.cos(frequency * t):.9g}\\n")
"""

folder = tempfile.TemporaryDirectory()
program = Path(folder.name, "oscillator.py")
program.write_text(PROGRAM)

command = ad.command([sys.executable, "-IS", str(program), "{input}", "{output}"], format="text")
oscillator = ad.external(command, noise=1e-9, workers=2, timeout=60, name="oscillator")

parameters = ad.tensor([2.0, 8.0, 0.4], dtype=ad.float64, requires_grad=True)
print(oscillator.cost(parameters))
curve = oscillator(parameters)
print("curve", curve.detach())
(ours,) = ad.autograd.grad((curve**2).sum(), parameters)
oscillator.close()

# The same in adjoint alone.
mass, stiffness, damping = parameters
t = 0.5 * ad.arange(6)
decay = damping / (2 * mass)
exact_curve = ad.exp(-decay * t) * ad.cos((stiffness / mass - decay**2).sqrt() * t)
(exact,) = ad.autograd.grad((exact_curve**2).sum(), parameters)
print("gradient by differences", ours)
print("exact gradient         ", exact)
print("gradient is right:", ad.allclose(ours, exact, rtol=0, atol=1e-5))
folder.cleanup()
