"""A sparse matrix, and the gradient by it: the same places and no others."""

from __future__ import annotations

import drawing

import adjoint as ad


def main() -> None:
    ad.manual_seed(1)
    n = 12
    dense = ad.where(ad.rand(n, n) < 0.2, ad.randn(n, n), 0.0)
    leaf = dense.to_sparse().requires_grad_()
    x = ad.linspace(-1, 1, n)
    (leaf @ x).square().sum().backward()
    full = dense.clone().requires_grad_()
    (full @ x).square().sum().backward()
    figure, axes = drawing.plot(8.2, 3, 3)
    stored = leaf.grad._nnz()
    for one, (title, values) in zip(
        axes,
        (
            (f"s: {stored} entries stored", dense),
            (f"gradient of s: {stored} entries", leaf.grad.to_dense()),
            (f"gradient of a dense one: {n * n}", full.grad),
        ),
        strict=True,
    ):
        one.imshow(ad.where(values == 0, float("nan"), values), cmap="RdBu_r", vmin=-2, vmax=2)
        one.set_title(title, size=10)
        one.set(xticks=[], yticks=[])
        one.spines[["top", "right"]].set_visible(True)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
