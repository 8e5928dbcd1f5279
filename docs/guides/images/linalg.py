"""Gradients by an eigenvector and by the eigenvalues as two eigenvalues meet."""

from __future__ import annotations

import drawing
import numpy as np

import adjoint as ad


def norms(gap: float) -> tuple[float, float]:
    turn = ad.linalg.qr(ad.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=ad.float64))[0]
    values = ad.tensor([1.0, 1.0 + gap], dtype=ad.float64)
    A = ((turn * values) @ turn.mT).requires_grad_()
    w, V = ad.linalg.eigh(A)
    (vector,) = ad.autograd.grad(V[0, 0], A, retain_graph=True)
    (total,) = ad.autograd.grad(w.log().sum(), A)
    return vector.norm().item(), total.norm().item()


def main() -> None:
    gaps = 10.0 ** np.arange(0, -10.1, -0.5)
    vector, total = zip(*(norms(gap) for gap in gaps), strict=True)
    figure, axes = drawing.plot(6.4, 3)
    axes.loglog(gaps, vector, color=drawing.RED, label="of an eigenvector's entry, V[0, 0]")
    axes.loglog(
        gaps, total, color=drawing.BLUE, label="of log(w).sum(), the logarithm of the determinant"
    )
    axes.invert_xaxis()
    axes.set(xlabel="distance of the two eigenvalues", ylabel="norm of the gradient by A")
    axes.legend(frameon=False, fontsize=8.5)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
