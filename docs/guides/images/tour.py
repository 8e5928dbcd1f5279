"""What the training of the tour does: the loss over the steps, and the curve before and after."""

from __future__ import annotations

import drawing

import adjoint as ad
from adjoint import nn, optim


def main() -> None:
    ad.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    x = ad.linspace(-3, 3, 64).reshape(-1, 1)
    target = ad.sin(x)
    before = net(x).detach()
    losses = []
    for _ in range(500):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    figure, axes = drawing.plot(8.2, 2.7, 2)
    axes[0].semilogy(losses, color=drawing.RED)
    axes[0].set(xlabel="step", title="loss: each step follows the gradient down")
    axes[1].plot(x, target, color="grey", linewidth=4, alpha=0.4, label="sin(x)")
    axes[1].plot(x, before, "--", color=drawing.RED, label="the network before")
    axes[1].plot(x, net(x).detach(), color=drawing.BLUE, label="and after 500 steps")
    axes[1].set(xlabel="x", title="what it has learned")
    axes[1].legend(frameon=False, fontsize=8)
    for one in axes:
        one.title.set_size(10)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
