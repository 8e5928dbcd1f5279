"""Is this installation of adjoint whole? Imports it, differentiates, multiplies, compiles, saves.

Needs nothing but the installed package: for wheels in new environments.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import adjoint as ad


def main() -> None:
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    ad.sin(ad.sum(x**2)).backward()
    assert x.grad is not None
    assert all(
        abs(g - 2 * v * math.cos(14)) < 1e-5
        for g, v in zip(x.grad.tolist(), (1, 2, 3), strict=True)
    )
    a = ad.randn(64, 64, dtype=ad.float64)
    assert ad.allclose(ad.linalg.solve(a, a @ a), a)  # OpenBLAS and LAPACK
    square = ad.compile(lambda v: (v * v).sum())
    assert [float(square(x)) for _ in range(3)] == [14.0] * 3
    with tempfile.TemporaryDirectory() as folder:
        ad.save({"a": a}, Path(folder) / "a.pt")
        assert ad.equal(ad.load(Path(folder) / "a.pt")["a"], a)
    print(f"adjoint {ad.__version__} from {Path(ad.__file__).parent} works")


main()
