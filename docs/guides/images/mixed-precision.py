"""Sizes of gradients against what 16-bit floats can hold."""

from __future__ import annotations

import drawing
import numpy as np

import adjoint as ad


def gradients() -> np.ndarray:
    """Gradients of the activations of a small network, in float32."""
    ad.manual_seed(0)
    net = ad.nn.Sequential(*(m for _ in range(6) for m in (ad.nn.Linear(64, 64), ad.nn.Tanh())))
    x = ad.randn(256, 64)
    kept = []
    for layer in net:
        x = layer(x)
        x.retain_grad()
        kept.append(x)
    (x.square().mean() * 1e-2).backward()
    return np.concatenate([t.grad.abs().flatten().numpy() for t in kept])


def main() -> None:
    sizes = np.log2(gradients())
    figure, axes = drawing.plot(7.6, 2.9)
    bins = np.arange(-42, 4, 0.5)
    axes.hist(sizes, bins, color=drawing.RED, alpha=0.75, label="gradients of a network")
    axes.hist(
        sizes + 12, bins, color=drawing.BLUE, alpha=0.75, label="the same, with a scale of 4096"
    )
    axes.axvline(-24, color="black", linewidth=1)
    top = 1.2 * axes.get_ylim()[1]
    axes.set_ylim(0, top)
    axes.text(-24.4, 0.96 * top, "zero in float16", ha="right", va="top", size=9)
    axes.text(-23.6, 0.96 * top, "float16 holds these", va="top", size=9)
    axes.set(xlabel="size, as a power of two (bfloat16 holds all from -133 on)", yticks=[])
    axes.legend(frameon=False, fontsize=8.5, loc="center left")
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
