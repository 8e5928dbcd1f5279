"""A variational autoencoder on points of a ring."""

import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(2, 32), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(32, 2), nn.Linear(32, 2)
        self.decode = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))

    def reparameterize(self, mean, log_variance):
        std = torch.exp(0.5 * log_variance)
        return mean + torch.randn_like(std) * std

    def forward(self, x):
        h = self.encode(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        return self.decode(self.reparameterize(mean, log_variance)), mean, log_variance


torch.manual_seed(11)
angle = torch.rand(256) * 6.2832
x = torch.stack([angle.cos(), angle.sin()], 1)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(61):
    seen, mean, log_variance = model(x)
    rebuilt = F.mse_loss(seen, x, reduction="sum") / len(x)
    kl = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp()) / len(x)
    loss = rebuilt + 0.05 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        print(f"{epoch:2d} rebuilt {rebuilt.item():.3f} kl {kl.item():.2f}")
