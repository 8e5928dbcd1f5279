"""Live memory of a training step, plain and with checkpoints."""

from __future__ import annotations

import drawing

import adjoint as ad
from adjoint.utils.checkpoint import checkpoint

BLOCKS, LAYERS = 4, 6
w = (0.05 * ad.randn(256, 256)).requires_grad_()


def block(x: ad.Tensor) -> ad.Tensor:
    for _ in range(LAYERS):
        x = (x @ w).tanh()
    return x


def plain(x: ad.Tensor) -> ad.Tensor:
    for _ in range(BLOCKS):
        x = block(x)
    return x.sum()


def kept(x: ad.Tensor) -> ad.Tensor:
    for _ in range(BLOCKS):
        x = checkpoint(block, x)
    return x.sum()


def main() -> None:
    figure, axes = drawing.plot(7.2, 2.9)
    for f, name, colour in ((plain, "plain", drawing.RED), (kept, "4 checkpoints", drawing.BLUE)):
        seen = ad.plot.memory(f, ad.randn(1024, 256))
        live = [moment.bytes / 1e6 for moment in seen.moments]
        places = [i / len(live) for i in range(len(live))]
        axes.plot(places, live, drawstyle="steps-post", color=colour, label=name)
    axes.set(xlabel="forward, then backward", xticks=[], ylabel="live MB")
    axes.legend(frameon=False)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
