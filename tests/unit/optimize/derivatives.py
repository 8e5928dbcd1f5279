"""Derivatives of answers in every mode, beside differences of the solver itself."""

from __future__ import annotations

from collections.abc import Callable

import adjoint as ad
from adjoint.func import grad, hessian, jacfwd, jacrev, vmap

STEP = 1e-5


def check_answer(
    solve: Callable[[ad.Tensor], ad.Tensor],
    at: ad.Tensor,
    first: float = 1e-8,
    second: float = 1e-6,
    thorough: bool = True,
) -> None:
    """First and second derivatives of ``solve``, both modes, under vmap, in either order.

    Otherwise, where it takes long, the first ones only.
    """
    directions = ad.eye(at.numel(), dtype=at.dtype)

    def differences(f: Callable[[ad.Tensor], ad.Tensor]) -> ad.Tensor:
        columns = [(f(at + STEP * v) - f(at - STEP * v)) / (2 * STEP) for v in directions]
        return ad.stack(columns, -1).detach()

    def near(got: ad.Tensor, wanted: ad.Tensor, tolerance: float) -> None:
        error = float((got - wanted).abs().max())
        assert error <= tolerance * (1 + float(wanted.abs().max())), error

    slope = differences(solve)
    near(jacrev(solve)(at), slope, first)
    near(jacfwd(solve)(at), slope, first)
    if not thorough:
        return

    def total(t: ad.Tensor) -> ad.Tensor:
        return (solve(t) ** 2).sum()

    curvature = differences(grad(total))
    for twice in (hessian(total), jacrev(jacrev(total)), jacfwd(jacfwd(total))):
        near(twice(at), curvature, second)
    x = at.clone().requires_grad_()
    (g,) = ad.autograd.grad(total(x), x, create_graph=True)
    rows = [ad.autograd.grad(part, x, retain_graph=True)[0] for part in g]
    near(ad.stack(rows), curvature, second)

    samples = ad.stack([at, at * 1.01, at * 0.99])
    each = ad.stack([solve(t) for t in samples])
    near(vmap(solve)(samples), each, 1e-11)
    rows = [jacrev(solve)(t) for t in samples]
    near(vmap(jacrev(solve))(samples), ad.stack(rows), 1e-9)
    x = samples.clone().requires_grad_()  # met again when vmap has ended
    (g,) = ad.autograd.grad((vmap(solve)(x) ** 2).sum(), x)
    near(g, ad.stack([grad(total)(t) for t in samples]), 1e-9)
