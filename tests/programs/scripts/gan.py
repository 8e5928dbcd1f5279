"""Two networks against each other, on a normal distribution."""

import torch
import torch.nn as nn

torch.manual_seed(4)
G = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
D = nn.Sequential(nn.Linear(1, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.999))
bce = nn.BCELoss()
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
for step in range(60):
    real = 3 + 0.5 * torch.randn(64, 1)
    fake = G(torch.randn(64, 4))
    opt_d.zero_grad()
    loss_d = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g = bce(D(fake), ones)
    loss_g.backward()
    opt_g.step()
    if step % 20 == 0:
        print(f"{step} D {loss_d.item():.3f} G {loss_g.item():.3f}")
with torch.no_grad():
    print(f"mean {G(torch.randn(1000, 4)).mean().item():.2f}")
