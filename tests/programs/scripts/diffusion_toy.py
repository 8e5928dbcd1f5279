"""A denoising diffusion model with an EMA copy, sinusoidal times and DDIM sampling."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(17)
T = 50
betas = torch.linspace(1e-4, 0.1, T)
alphas_bar = torch.cumprod(1 - betas, dim=0)


def timestep_embedding(t, dim, max_period=1000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(0, half, dtype=torch.float32) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width * 2))
        self.inp = nn.Linear(2, width)
        self.mid = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.norms = nn.ModuleList([nn.RMSNorm(width, elementwise_affine=False) for _ in range(2)])
        self.out = nn.Linear(width, 2)
        nn.init.zeros_(self.out.weight)

    def forward(self, x, t):
        scale, shift = self.time(timestep_embedding(t, 16)).chunk(2, dim=1)
        h = self.inp(x)
        for layer, norm in zip(self.mid, self.norms):
            h = h + F.gelu(layer(norm(h) * (1 + scale) + shift), approximate="tanh")
        return self.out(h)


@torch.no_grad()
def update_ema(target, source, decay):
    for p, q in zip(target.parameters(), source.parameters()):
        p.lerp_(q, 1 - decay)


def spiral(n):
    u = torch.rand(n).sqrt() * 3 * math.pi
    return torch.stack((u.cos() * u, u.sin() * u), -1) / 6 + 0.03 * torch.randn(n, 2)


model = Denoiser()
ema = copy.deepcopy(model).requires_grad_(False)
opt = torch.optim.RAdam(model.parameters(), lr=3e-3)
for step in range(40):
    x0 = spiral(96)
    t = torch.randint(0, T, (len(x0),))
    eps = torch.randn_like(x0)
    a = alphas_bar.gather(0, t).view(-1, 1)
    loss = F.mse_loss(model(torch.sqrt(a) * x0 + torch.sqrt(1 - a) * eps, t), eps)
    opt.zero_grad()
    loss.backward()
    opt.step()
    update_ema(ema, model, 0.9)
    if step % 10 == 0:
        print(f"{step} {loss.item():.4f}")


@torch.inference_mode()
def ddim(net, n, steps=10):
    x = torch.randn(n, 2)
    times = torch.linspace(T - 1, 0, steps).long()
    for i, t in enumerate(times):
        a = alphas_bar[t]
        a_next = alphas_bar[times[i + 1]] if i + 1 < steps else torch.tensor(1.0)
        eps = net(x, t.expand(n))
        x0 = (x - (1 - a).sqrt() * eps) / a.sqrt()
        x = a_next.sqrt() * x0 + (1 - a_next).sqrt() * eps
    return x


sample = ddim(ema, 64)
print([round(v, 2) for v in sample.mean(0).tolist()], f"{sample.std():.2f}", sample.is_inference())
