"""Temperatures of a rod, and the gradient of the middle one by the conductivity of each cell."""

from __future__ import annotations

import drawing

import adjoint as ad


def main() -> None:
    n = 50
    h = 1 / (n + 1)
    k = ad.full((n + 1,), 2.0, dtype=ad.float64)
    k[:17] = 0.5
    k.requires_grad_()
    stiff = ad.sparse.diags_array([-k[1:-1], k[1:] + k[:-1], -k[1:-1]], offsets=[-1, 0, 1])
    u = ad.sparse.linalg.spsolve(stiff / h**2, ad.ones(n, dtype=ad.float64))
    (g,) = ad.autograd.grad(u[n // 2], k)
    s = ad.arange(1, n + 1, dtype=ad.float64) * h
    cells = (ad.arange(n + 1, dtype=ad.float64) + 0.5) * h
    figure, axes = drawing.plot(8.2, 2.8, 2)
    axes[0].plot(s, u.detach(), color=drawing.BLUE)
    axes[0].plot(s[n // 2], u[n // 2].item(), "o", color=drawing.RED)
    axes[0].axvspan(0, 17 * h, color="#eeeeee")
    axes[0].text(0.02, 0.01, "k = 0.5", size=9)
    axes[0].text(0.4, 0.01, "k = 2", size=9)
    axes[0].set(xlabel="place", title="temperature u, by spsolve")
    axes[1].bar(cells, g, width=0.8 * h, color=drawing.RED)
    axes[1].set(xlabel="place", title="gradient of the temperature at the dot by each k")
    for one in axes:
        one.title.set_size(10)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
