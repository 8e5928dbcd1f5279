"""An image is changed until its Gram matrices are another's."""

import torch
from torch import nn, optim

torch.manual_seed(0)
features = nn.Sequential(
    nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.ReLU()
).requires_grad_(False)


def gram(x):
    b, c, h, w = x.size()
    f = x.view(b * c, h * w)
    return torch.mm(f, f.t()).div(b * c * h * w)


style, image = torch.rand(1, 3, 14, 14), torch.rand(1, 3, 14, 14).requires_grad_(True)
targets = [gram(features[: k + 1](style)).detach() for k in (1, 3)]
optimizer = optim.LBFGS([image], max_iter=10)
run = [0]
first = None
while run[0] < 20:

    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        loss = (
            sum(
                nn.functional.mse_loss(gram(features[: k + 1](image)), t)
                for k, t in zip((1, 3), targets)
            )
            * 1e4
        )
        loss.backward()
        run[0] += 1
        return loss

    loss = optimizer.step(closure)
    first = loss.item() if first is None else first
with torch.no_grad():
    image.clamp_(0, 1)
print(f"{first:.2f}", closure().item() < 0.1 * first, tuple(image.shape))
