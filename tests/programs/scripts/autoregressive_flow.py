"""A masked autoregressive flow and TransformedDistribution, trained on two moons."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import distributions as D
from torch.distributions import constraints, transforms as T

torch.manual_seed(5)


class MaskedLinear(nn.Linear):
    def __init__(self, n_in, n_out, mask):
        super().__init__(n_in, n_out)
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.linear(x, self.weight * self.mask, self.bias)

    def extra_repr(self):
        return super().extra_repr() + f", kept={int(self.mask.sum())}"


class MADE(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        degrees_in = torch.arange(1, dim + 1)
        degrees_h = torch.arange(hidden) % max(1, dim - 1) + 1
        m1 = (degrees_h[:, None] >= degrees_in[None, :]).float()
        m2 = (degrees_in[:, None] > degrees_h[None, :]).float().repeat(2, 1)
        self.net = nn.Sequential(
            MaskedLinear(dim, hidden, m1), nn.ELU(), MaskedLinear(hidden, 2 * dim, m2)
        )

    def forward(self, x):
        mu, s = self.net(x).chunk(2, -1)
        return mu, 2 * torch.tanh(s)


class Flow(nn.Module):
    def __init__(self, dim=2, layers=3):
        super().__init__()
        self.layers = nn.ModuleList(MADE(dim, 16) for _ in range(layers))
        self.register_buffer("loc", torch.zeros(dim))
        self.log_scale = nn.ParameterList([nn.Parameter(torch.zeros(dim)) for _ in range(layers)])

    @property
    def base(self):
        return D.Independent(D.Normal(self.loc, torch.ones_like(self.loc)), 1)

    def log_prob(self, x):
        logdet = x.new_zeros(x.shape[:-1])
        for layer, ls in zip(self.layers, self.log_scale):
            mu, s = layer(x)
            x = (x - mu) * torch.exp(-s - ls)
            logdet = logdet - (s + ls).sum(-1)
            x = x.flip(-1)
        return self.base.log_prob(x) + logdet

    def sample(self, n):
        x = self.base.sample((n,))
        for layer, ls in reversed(list(zip(self.layers, self.log_scale))):
            x = x.flip(-1)
            out = torch.zeros_like(x)
            for i in range(x.size(-1)):
                mu, s = layer(out)
                out[:, i] = x[:, i] * (s + ls).exp()[:, i] + mu[:, i]
            x = out
        return x


def moons(n):
    t = math.pi * torch.rand(n)
    side = torch.bernoulli(torch.full((n,), 0.5))
    x = torch.stack([torch.cos(t) * (1 - 2 * side) + side, torch.sin(t) * (1 - 2 * side)], 1)
    return x + 0.08 * torch.randn_like(x)


flow = Flow()
print(flow)
opt = torch.optim.AdamW(flow.parameters(), lr=1e-2, weight_decay=1e-4, amsgrad=True)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-2, total_steps=60)
for step in range(60):
    loss = -flow.log_prob(moons(64)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 20 == 19:
        print(f"{step + 1} {loss.item():.4f} {opt.param_groups[0]['lr']:.6f}")
with torch.no_grad():
    print(flow.sample(200).std(0).round(decimals=2).tolist())
skew = D.TransformedDistribution(
    D.Normal(torch.zeros(3), 1.0),
    [T.AffineTransform(0.5, torch.tensor([1.0, 2.0, 0.5])), T.SigmoidTransform()],
)
x = skew.rsample((4,))
print(
    skew.log_prob(x).sum().item().__round__(3), skew.support is constraints.unit_interval, x.shape
)
b = T.StickBreakingTransform()
z = torch.tensor([0.2, -0.4, 1.0], requires_grad=True)
s = b(z)
(g,) = torch.autograd.grad(b.log_abs_det_jacobian(z, s), z)
print(s, g, b.inv(s))
