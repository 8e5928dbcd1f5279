"""Convolutions down, transposed convolutions up."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
grid = torch.stack(
    torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
)
centres = torch.rand(24, 2, 1, 1) - 0.5
x = torch.exp(-8 * ((grid - centres) ** 2).sum(1, keepdim=True))
encoder = nn.Sequential(
    nn.Conv2d(1, 4, 3, stride=2, padding=1),
    nn.GELU(),
    nn.Conv2d(4, 8, 3, stride=2, padding=1),
    nn.GELU(),
    nn.Flatten(),
    nn.Linear(128, 6),
)
decoder = nn.Sequential(
    nn.Linear(6, 128),
    nn.Unflatten(1, (8, 4, 4)),
    nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1),
    nn.GELU(),
    nn.ConvTranspose2d(4, 1, 4, stride=2, padding=1),
    nn.Sigmoid(),
)
parameters = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.Adam(parameters, lr=5e-3)
for epoch in range(31):
    code = encoder(x)
    loss = F.mse_loss(decoder(code), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        print(epoch, f"{loss.item():.4f}")
print(
    code.shape, F.interpolate(x[:1], scale_factor=0.5, mode="bilinear", align_corners=False).shape
)
