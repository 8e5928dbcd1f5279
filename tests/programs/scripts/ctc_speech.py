"""Labels without places in time, by the CTC loss."""

import torch
from torch import nn

torch.manual_seed(0)
T, N, C = 20, 4, 6
frames = torch.randn(T, N, 8)
targets = torch.randint(1, C, (N, 5))
lengths = torch.tensor([5, 3, 4, 2])
model = nn.Sequential(nn.Linear(8, 24), nn.Hardtanh(), nn.Linear(24, C), nn.LogSoftmax(dim=-1))
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(31):
    log_probs = model(frames)
    loss = criterion(log_probs, targets, torch.full((N,), T), lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.3f}")
print(log_probs.exp().sum(-1).mean().item().__round__(4))
