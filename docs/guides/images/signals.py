"""The impulse response of a recursive filter, and its derivative by the coefficient."""

from __future__ import annotations

import drawing

import adjoint as ad


def main() -> None:
    impulse = ad.zeros(60, dtype=ad.float64)
    impulse[0] = 1
    c = ad.tensor(0.9, dtype=ad.float64)

    def response(c: ad.Tensor) -> ad.Tensor:
        return ad.signal.lfilter([1.0], ad.stack([ad.ones_like(c), -c]), impulse)

    y, slope = ad.func.jvp(response, (c,), (ad.ones_like(c),))
    figure, axes = drawing.plot(8, 2.6, 2)
    axes[0].plot(y, ".-", color=drawing.BLUE)
    axes[0].set(xlabel="n", title="answer to an impulse, c = 0.9")
    axes[1].plot(slope, ".-", color=drawing.RED)
    axes[1].set(xlabel="n", title="derivative of each sample by c")
    for one in axes:
        one.title.set_size(10)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
