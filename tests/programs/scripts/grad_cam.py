import copy
import pickle

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class SE(nn.Module):
    def __init__(s, c, r=4):
        super().__init__()
        s.fc = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(c, c // r, 1),
            nn.ReLU6(),
            nn.Conv2d(c // r, c, 1),
            nn.Hardsigmoid(),
        )

    def forward(s, x):
        return x * s.fc(x)


class CNN(nn.Module):
    def __init__(s):
        super().__init__()
        s.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish())
        s.layer1 = nn.Sequential(
            nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Conv2d(8, 16, 1), SE(16), nn.SiLU()
        )
        s.head = nn.Linear(16, 4)

    def forward(s, x):
        return s.head(s.layer1(s.stem(x)).mean((2, 3)))


net = CNN().eval()
x = torch.rand(2, 3, 16, 16, requires_grad=True)


class GradCAM:
    def __init__(s, m, layer):
        s.m = m
        s.h = [layer.register_forward_hook(s.f), layer.register_full_backward_hook(s.b)]

    def f(s, m, i, o):
        s.act = o.detach()

    def b(s, m, gi, go):
        s.grad = go[0].detach()

    def __call__(s, x, c=None):
        o = s.m(x)
        c = o.argmax(1) if c is None else torch.full((len(x),), c)
        s.m.zero_grad()
        o.gather(1, c[:, None]).sum().backward()
        w = s.grad.mean((2, 3), keepdim=True)
        cam = F.relu((w * s.act).sum(1, keepdim=True))
        cam = F.interpolate(cam, x.shape[2:], mode="bilinear", align_corners=False)
        mn, mx = cam.amin((1, 2, 3), True), cam.amax((1, 2, 3), True)
        return (cam - mn) / (mx - mn + 1e-8)

    def __enter__(s):
        return s

    def __exit__(s, *a):
        [h.remove() for h in s.h]


with GradCAM(net, net.layer1[-1]) as cam:
    c = cam(x)
    print(c.shape, c.sum((1, 2, 3)), cam.grad.abs().mean())
print(len(net.layer1[-1]._forward_hooks), x.grad.abs().sum())
log = []


def trace(m, n):
    hs = []
    for k, mod in m.named_modules():
        if not list(mod.children()):
            hs.append(
                mod.register_forward_hook(
                    lambda mm, i, o, k=k: log.append(
                        (
                            k,
                            type(mm).__name__,
                            tuple(o.shape),
                            sum(p.numel() for p in mm.parameters()),
                        )
                    )
                )
            )
    return hs


hs = trace(net, "")
net(x)
[h.remove() for h in hs]
for row in log:
    print(f"{row[0]:14s} {row[1]:18s} {row[2]!s:16s} {row[3]}")


class Guided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        ctx.save_for_backward(i)
        return i.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (i,) = ctx.saved_tensors
        return g * (i > 0).to(g.dtype) * (g > 0).type_as(g)


g = torch.autograd.grad(Guided.apply(net.stem(x)).sum(), x)[0]
print(g.norm())


def pre(m, args, kwargs):
    kwargs["scale"] = 2.0
    return args, kwargs


class K(nn.Module):
    def forward(s, a, *, scale=1.0):
        return a * scale


k = K()
h = k.register_forward_pre_hook(pre, with_kwargs=True)
print(k(torch.ones(2)), k(torch.ones(2), scale=5.0))
h.remove()
print(k(torch.ones(2)))
h = k.register_forward_hook(
    lambda m, a, kw, o: o + kw.get("scale", 0), with_kwargs=True, prepend=True, always_call=True
)
print(k(torch.ones(2), scale=3.0))
h.remove()
lin = nn.Linear(2, 2)
ev = []
lin.register_full_backward_pre_hook(lambda m, g: ev.append("pre"))
lin.register_full_backward_hook(lambda m, gi, go: ev.append(("post", gi[0] is None, go[0].shape)))
lin.weight.register_hook(lambda g: g * 0 + 1)
lin.bias.register_post_accumulate_grad_hook(lambda p: ev.append(("acc", p.grad.tolist())))
lin(torch.ones(3, 2)).sum().backward()
print(ev, lin.weight.grad)
y = lin(torch.ones(1, 2))
n = y.grad_fn
print(n.name(), [f[0].name() if f[0] else None for f in n.next_functions])
hh = n.register_prehook(lambda go: (go[0] * 2,))
y.sum().backward()
print(lin.bias.grad)
hh.remove()
with torch.autograd.graph.saved_tensors_hooks(
    lambda t: (ev.append("pack"), t.half())[1], lambda t: t.float()
):
    z = (x[:, :, :2, :2] ** 2).sum()
z.backward()
print(ev[-1], x.grad[0, 0, 0, :2])
st = net.state_dict()
net.register_load_state_dict_post_hook(lambda m, inc: print("post", inc))
st["extra"] = torch.zeros(1)
del st["head.bias"]
print(net.load_state_dict(st, strict=False))
try:
    net.load_state_dict(st)
except RuntimeError as e:
    print(e)
m2 = pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))
print(m2)
m3 = copy.deepcopy(m2)
m3[0].weight.data.zero_()
print(m2[0].weight.abs().sum() > 0, m3[0].weight.sum())
with torch.nn.utils.parametrize.cached():
    print(nn.utils.parametrize.is_parametrized(m2))
acts = {}
handle = nn.modules.module.register_module_forward_hook(
    lambda m, i, o: acts.__setitem__(type(m).__name__, o.shape)
)
m2(torch.ones(1, 2))
handle.remove()
print(acts)
