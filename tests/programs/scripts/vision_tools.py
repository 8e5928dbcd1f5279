"""Vision: augmentation, boxes, losses, small blocks, mixup and warps, written by hand."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
img = torch.rand(2, 3, 16, 16)


def color_jitter(x):
    return (x * (1 + 0.2 * torch.randn(len(x), 1, 1, 1))).clamp_(0, 1)


def random_crop(x, s):
    i, j = torch.randint(0, x.shape[-1] - s + 1, (2,)).tolist()
    return x[..., i : i + s, j : j + s]


def hflip(x, p=0.5):
    m = torch.rand(len(x)) < p
    out = x.clone()
    out[m] = x[m].flip(-1)
    return out


y = F.interpolate(
    hflip(random_crop(color_jitter(img), 12)),
    16,
    mode="bicubic",
    align_corners=False,
    antialias=False,
)
print(y.shape, f"{y.mean():.4f}")
mean, std = (
    torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1),
    torch.tensor([0.229, 0.224, 0.225]).view(-1, 1, 1),
)
print(f"{((img - mean) / std).sum():.3f}")


def box_iou(a, b):
    lt = torch.max(a[:, None, :2], b[:, :2])
    rb = torch.min(a[:, None, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh.prod(2)
    area = lambda z: (z[:, 2:] - z[:, :2]).prod(1)
    return inter / (area(a)[:, None] + area(b) - inter)


boxes = torch.rand(8, 2) * 8
boxes = torch.cat([boxes, boxes + 1 + torch.rand(8, 2) * 4], 1)
scores = torch.rand(8)


def nms(b, s, thr):
    keep, order = [], s.argsort(descending=True)
    while order.numel():
        i = order[0]
        keep.append(i.item())
        order = order[1:][box_iou(b[i][None], b[order[1:]])[0] <= thr]
    return keep


print(nms(boxes, scores, 0.3), box_iou(boxes, boxes).diagonal().allclose(torch.ones(8)))


def focal(l, t, a=0.25, g=2.0):
    ce = F.binary_cross_entropy_with_logits(l, t, reduction="none")
    p = torch.exp(-ce)
    return (a * (1 - p) ** g * ce).mean()


l = torch.randn(4, 5, requires_grad=True)
focal(l, (l.detach() > 0).float()).backward()
print(f"{l.grad.abs().sum():.5f}")


def dice(p, t, eps=1.0):
    p, t = p.flatten(1), t.flatten(1)
    return (1 - (2 * (p * t).sum(1) + eps) / (p.sum(1) + t.sum(1) + eps)).mean()


def gaussian(n, s):
    x = torch.arange(n).float() - n // 2
    g = torch.exp(-(x**2) / (2 * s * s))
    return g / g.sum()


def ssim(a, b):
    k = gaussian(5, 1.5)
    w = (k[:, None] @ k[None]).expand(3, 1, 5, 5).contiguous()
    f = lambda z: F.conv2d(z, w, groups=3, padding=2)
    ma, mb = f(a), f(b)
    sa, sb, sab = f(a * a) - ma**2, f(b * b) - mb**2, f(a * b) - ma * mb
    return (
        ((2 * ma * mb + 1e-4) * (2 * sab + 9e-4)) / ((ma**2 + mb**2 + 1e-4) * (sa + sb + 9e-4))
    ).mean()


overlap = dice(torch.sigmoid(img), (img > 0.5).float())
noise = -10 * torch.log10(F.mse_loss(img, y))
print(f"{overlap:.4f} {ssim(img, y):.4f} {noise:.3f}")


class SE(nn.Module):
    def __init__(self, c, r=2):
        super().__init__()
        self.fc = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(c, c // r, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(c // r, c, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x):
        return x * self.fc(x)


class MBConv(nn.Module):
    def __init__(self, i, o, e=2, s=1):
        super().__init__()
        h = i * e
        self.net = nn.Sequential(
            nn.Conv2d(i, h, 1, bias=False),
            nn.BatchNorm2d(h, eps=1e-3, momentum=0.01),
            nn.SiLU(),
            nn.Conv2d(h, h, 3, s, 1, groups=h, bias=False),
            nn.BatchNorm2d(h),
            nn.SiLU(True),
            SE(h),
            nn.Conv2d(h, o, 1, bias=False),
            nn.BatchNorm2d(o),
        )
        self.skip = s == 1 and i == o

    def forward(self, x):
        return x + self.net(x) if self.skip else self.net(x)


net = nn.Sequential(
    nn.Conv2d(3, 8, 3, 2, 1),
    MBConv(8, 8),
    MBConv(8, 16, s=2),
    nn.Conv2d(16, 16, 3, padding=2, dilation=2, padding_mode="reflect"),
    nn.InstanceNorm2d(16, affine=True),
    nn.LeakyReLU(0.1),
    nn.ConvTranspose2d(16, 4, 4, 2, 1),
    nn.PixelShuffle(2),
)
opt = torch.optim.SGD(
    [
        {"params": [p for n, p in net.named_parameters() if "bias" in n], "lr": 0.02},
        {"params": [p for n, p in net.named_parameters() if "bias" not in n]},
    ],
    lr=0.05,
    momentum=0.9,
    dampening=0.1,
    weight_decay=1e-4,
)
for i in range(4):
    lam = torch.distributions.Beta(0.4, 0.4).sample()
    perm = torch.randperm(2)
    x = lam * img + (1 - lam) * img[perm]
    out = net(x)
    loss = (
        F.smooth_l1_loss(out.mean(1, keepdim=True), x.mean(1, keepdim=True))
        + 1e-3 * (out[..., 1:] - out[..., :-1]).abs().mean()
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{i} {loss.item():.5f} {lam:.3f}", tuple(out.shape))
flow = 0.1 * torch.randn(2, 2, 16, 16)
base = torch.stack(
    torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="xy"), -1
)
warped = F.grid_sample(
    img, base + flow.permute(0, 2, 3, 1), align_corners=True, padding_mode="border"
)
print(f"{(warped - img).abs().mean():.4f}")
print(
    F.max_pool2d(img, 2).shape,
    F.unfold(img, 4, stride=4).shape,
    F.avg_pool2d(img, 3, 2, ceil_mode=True).shape,
    torch.nn.functional.pad(img, (1, 1, 1, 1), mode="reflect").shape,
    net[1].net[1].running_mean.abs().sum().item() > 0,
    net[1].net[1].num_batches_tracked,
    nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(2)),
)
net = net.to(memory_format=torch.channels_last).eval()
out = net(img.contiguous(memory_format=torch.channels_last))
print(
    f"{out.sum():.3f}",
    torch.hub if False else "",
    img.permute(0, 2, 3, 1).reshape(-1, 3).cov().shape
    if False
    else torch.cov(img.flatten(2)[0]).shape,
)
