"""A U-shaped network marks a disc: skips, upsampling, group norms, a Dice loss."""

import torch
from torch import nn


class Double(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(
            nn.Conv2d(a, b, 3, padding=1),
            nn.GroupNorm(2, b),
            nn.SiLU(),
            nn.Conv2d(b, b, 3, padding=1),
            nn.SiLU(),
        )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = Double(1, 4), Double(4, 8), Double(12, 4)
        self.pool, self.up = (
            nn.AvgPool2d(2),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        )
        self.out = nn.Conv2d(4, 1, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(self.pool(a))
        return self.out(self.c(torch.cat([a, self.up(b)], 1)))


torch.manual_seed(0)
i, j = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
mask = torch.stack(
    [((i - r) ** 2 + (j - c) ** 2 < 16).float() for r, c in [(5, 5), (10, 8), (8, 11), (6, 9)]]
).unsqueeze(1)
x = mask + 0.5 * torch.randn_like(mask)
net = UNet()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(25):
    p = torch.sigmoid(net(x))
    dice = 1 - 2 * (p * mask).sum((1, 2, 3)) / (p + mask).sum((1, 2, 3))
    loss = dice.mean() + nn.functional.binary_cross_entropy(p, mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0:
        print(step, f"{loss.item():.2f}")
