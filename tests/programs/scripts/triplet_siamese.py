"""Embeddings in which like is near like."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
centres = torch.randn(4, 10)
labels = torch.arange(4).repeat_interleave(15)
x = centres[labels] + 0.5 * torch.randn(60, 10)
net = nn.Sequential(nn.Linear(10, 16), nn.PReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adagrad(net.parameters(), lr=0.05)
criterion = nn.TripletMarginLoss(margin=1.0)
for step in range(31):
    anchor = torch.randperm(60)[:32]
    same = torch.stack([(labels == labels[a]).nonzero().squeeze(1)[3] for a in anchor])
    other = torch.stack([(labels != labels[a]).nonzero().squeeze(1)[7] for a in anchor])
    z = F.normalize(net(x), dim=1)
    loss = criterion(z[anchor], z[same], z[other])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.3f}")
d = torch.cdist(z, z)
same = labels[:, None] == labels[None]
print(
    "apart:",
    bool(d[same].mean() < d[~same].mean()),
    f"{F.cosine_similarity(z[:1], z[1:2]).item():.2f}",
)
