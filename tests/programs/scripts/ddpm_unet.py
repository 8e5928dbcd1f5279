"""Tiny DDPM with a time-conditioned U-Net, EMA and cosine schedule."""

import copy
import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    T: int = 20
    dim: int = 8
    mults: tuple[int, ...] = (1, 2)
    lr: float = 1e-3
    betas: list[float] = field(default_factory=lambda: [0.9, 0.99])


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t: Tensor) -> Tensor:
        half = self.dim // 2
        emb = torch.exp(torch.arange(half, device=t.device) * -(math.log(10000) / (half - 1)))
        emb = t[:, None].float() * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, temb, groups=4):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(temb, cout * 2))
        self.b1 = nn.Conv2d(cin, cout, 3, padding=1, padding_mode="circular")
        self.n1 = nn.GroupNorm(groups, cout)
        self.b2 = nn.Conv2d(cout, cout, 3, padding="same")
        self.n2 = nn.GroupNorm(groups, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        scale, shift = self.mlp(t)[..., None, None].chunk(2, dim=1)
        h = F.silu(self.n1(self.b1(x)) * (scale + 1) + shift)
        return F.silu(self.n2(self.b2(h))) + self.skip(x)


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=2, dh=4):
        super().__init__()
        self.h = heads
        self.qkv = nn.Conv2d(dim, heads * dh * 3, 1, bias=False)
        self.out = nn.Conv2d(heads * dh, dim, 1)

    def forward(self, x):
        b, _c, h, w = x.shape
        q, k, v = (t.unflatten(1, (self.h, -1)).flatten(3) for t in self.qkv(x).chunk(3, 1))
        q = q.softmax(-2) * (q.shape[-2] ** -0.5)
        k = k.softmax(dim=-1)
        ctx = torch.einsum("bhdn,bhen->bhde", k, v)
        o = torch.einsum("bhde,bhdn->bhen", ctx, q)
        return self.out(o.reshape(b, -1, h, w)) + x


class UNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg.dim
        dims = [d * m for m in cfg.mults]
        self.time = nn.Sequential(
            SinusoidalPosEmb(d),
            nn.Linear(d, d * 4),
            nn.GELU(approximate="tanh"),
            nn.Linear(d * 4, d * 4),
        )
        self.init = nn.Conv2d(1, d, 7, padding=3)
        self.downs = nn.ModuleList()
        self.ups = nn.ModuleList()
        prev = d
        for m in dims:
            self.downs.append(
                nn.ModuleDict(
                    {
                        "r": ResBlock(prev, m, d * 4),
                        "a": LinearAttention(m),
                        "d": nn.Conv2d(m, m, 4, 2, 1),
                    }
                )
            )
            prev = m
        self.mid = ResBlock(prev, prev, d * 4)
        for m in reversed(dims):
            self.ups.append(
                nn.ModuleDict(
                    {
                        "u": nn.Upsample(scale_factor=2, mode="nearest"),
                        "r": ResBlock(prev + m, m, d * 4),
                    }
                )
            )
            prev = m
        self.final = nn.Conv2d(prev, 1, 1)

    def forward(self, x, t):
        t = self.time(t)
        x = self.init(x)
        hs = []
        for blk in self.downs:
            x = blk["a"](blk["r"](x, t))
            hs.append(x)
            x = blk["d"](x)
        x = self.mid(x, t)
        for blk in self.ups:
            x = blk["r"](torch.cat([blk["u"](x), hs.pop()], 1), t)
        return self.final(x)


def cosine_beta(T, s=0.008):
    x = torch.linspace(0, T, T + 1, dtype=torch.float64)
    a = torch.cos(((x / T) + s) / (1 + s) * torch.pi * 0.5) ** 2
    a = a / a[0]
    return torch.clip(1 - a[1:] / a[:-1], 0.0001, 0.9999)


class Diffusion(nn.Module):
    def __init__(self, model, T):
        super().__init__()
        self.model = model
        self.T = T
        betas = cosine_beta(T)
        alphas = 1 - betas
        ac = alphas.cumprod(0)
        prev = F.pad(ac[:-1], (1, 0), value=1.0)

        def reg(n, v):
            return self.register_buffer(n, v.to(torch.float32))

        reg("betas", betas)
        reg("ac", ac)
        reg("sa", ac.sqrt())
        reg("s1", (1 - ac).sqrt())
        reg("pv", betas * (1 - prev) / (1 - ac))
        reg("ra", alphas.rsqrt())

    @staticmethod
    def extract(a, t, shape):
        return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))

    def loss(self, x0):
        t = torch.randint(0, self.T, (x0.shape[0],)).long()
        noise = torch.randn_like(x0)
        xt = self.extract(self.sa, t, x0.shape) * x0 + self.extract(self.s1, t, x0.shape) * noise
        return F.smooth_l1_loss(self.model(xt, t), noise)

    @torch.no_grad()
    def sample(self, shape):
        x = torch.randn(shape)
        for i in reversed(range(self.T)):
            t = torch.full((shape[0],), i, dtype=torch.long)
            mean = self.extract(self.ra, t, shape) * (
                x
                - self.extract(self.betas, t, shape)
                * self.model(x, t)
                / self.extract(self.s1, t, shape)
            )
            x = (
                mean
                if i == 0
                else mean + self.extract(self.pv, t, shape).sqrt() * torch.randn_like(x)
            )
        return x.clamp_(-1.0, 1.0)


class EMA:
    def __init__(self, m, decay):
        self.m = copy.deepcopy(m).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, m):
        for a, b in zip(self.m.parameters(), m.parameters(), strict=False):
            a.lerp_(b, 1 - self.decay)
        for a, b in zip(self.m.buffers(), m.buffers(), strict=False):
            a.copy_(b)


torch.manual_seed(0)
cfg = Config()
net = Diffusion(UNet(cfg), cfg.T)
ema = EMA(net, 0.9)
opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, betas=tuple(cfg.betas), weight_decay=1e-2)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=cfg.lr, total_steps=12)
yy, xx = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="xy")
data = torch.stack([((xx + yy + k) % 4 < 2).float() * 2 - 1 for k in range(4)]).unsqueeze(1)
print(cfg)
print(sum(p.numel() for p in net.parameters()))
for step in range(12):
    loss = net.loss(data[torch.randperm(4)])
    opt.zero_grad()
    loss.backward()
    gn = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    sched.step()
    ema.update(net)
    if step % 3 == 2:
        print(f"{step:3d} loss={loss:.4f} grad={gn:.4f} lr={opt.param_groups[0]['lr']:.2e}")
s = ema.m.sample((2, 1, 8, 8))
print(s.mean(), s.std(), s[0, 0, 0])
