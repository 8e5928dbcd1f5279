"""Draw the pictures of docs/guides/plots.md: `python docs/guides/images/plots.py`."""

from __future__ import annotations

from pathlib import Path

import adjoint as ad

HERE = Path(__file__).parent


def deep(x: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
    h = x
    for _ in range(4):
        h = ad.tanh(h @ w)
    wide = ad.exp(h)
    return (wide * h).sum()


def main() -> None:
    ad.manual_seed(0)
    nn = ad.nn
    layers = [m for _ in range(5) for m in (nn.Linear(16, 16), nn.Sigmoid())]
    net = nn.Sequential(nn.Linear(2, 16), nn.Sigmoid(), *layers, nn.Linear(16, 1))
    seen = ad.plot.gradients(net)
    optimizer = ad.optim.Adam(net.parameters(), lr=0.01)
    x = ad.randn(64, 2)
    for _ in range(100):
        optimizer.zero_grad()
        (net(x) - x.prod(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    seen.norms = {name: n for name, n in seen.norms.items() if name.endswith("weight")}
    seen.save(HERE / "plot_gradients.png")
    w = (0.05 * ad.randn(300, 300)).requires_grad_()
    ad.plot.memory(deep, ad.randn(500, 300), w).save(HERE / "plot_memory.png")
    u = ad.randn(40, dtype=ad.float64)
    J = ad.func.jacobian(lambda u: u.roll(1) - 2 * u + u.roll(-1) + u**2)(u)
    ad.plot.jacobian(J).save(HERE / "plot_jacobian.png")


if __name__ == "__main__":
    main()
