"""A network gives a mixture of normals, by torch.distributions."""

import torch
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, Normal

torch.manual_seed(0)
y = torch.rand(300, 1) * 2 - 1
x = y + 0.3 * torch.sin(6 * y) + 0.05 * torch.randn_like(y)
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 9))


def distribution(x):
    weight, mean, scale = net(x).chunk(3, dim=-1)
    return MixtureSameFamily(
        Categorical(logits=weight), Normal(mean, nn.functional.softplus(scale) + 1e-3)
    )


optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(61):
    loss = -distribution(x).log_prob(y.squeeze(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, f"{loss.item():.2f}")
d = distribution(torch.zeros(1, 1))
print(d.mean.shape, d.batch_shape, d.event_shape)
