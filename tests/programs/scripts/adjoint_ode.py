"""A neural ODE whose gradient is integrated backwards: a custom autograd Function."""

import torch
import torch.nn as nn

torch.manual_seed(3)


def rk4(f, y, t0, t1, steps=8):
    h = (t1 - t0) / steps
    t = t0
    for _ in range(steps):
        k1 = f(t, y)
        k2 = f(t + h / 2, tuple(a + h / 2 * k for a, k in zip(y, k1)))
        k3 = f(t + h / 2, tuple(a + h / 2 * k for a, k in zip(y, k2)))
        k4 = f(t + h, tuple(a + h * k for a, k in zip(y, k3)))
        y = tuple(a + h / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(y, k1, k2, k3, k4))
        t = t + h
    return y


class OdeAdjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, y0, t, *params):
        ctx.func = func
        with torch.no_grad():
            states = [y0]
            for a, b in zip(t[:-1], t[1:]):
                states.append(rk4(lambda s, y: (func(s, *y),), (states[-1],), a, b)[0])
        ys = torch.stack(states)
        ctx.save_for_backward(ys, t, *params)
        return ys

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        ys, t, *params = ctx.saved_tensors
        func = ctx.func

        def augmented(s, state):
            y, a = state[0], state[1]
            with torch.enable_grad():
                y = y.detach().requires_grad_(True)
                out = func(s, y)
                gy, *gp = torch.autograd.grad(out, (y, *params), -a, allow_unused=True)
            gp = [torch.zeros_like(p) if g is None else g for g, p in zip(gp, params)]
            return (out, gy, *gp)

        a = grad[-1]
        gp = [torch.zeros_like(p) for p in params]
        for i in range(len(t) - 1, 0, -1):
            _, a, *gp = rk4(augmented, (ys[i], a, *gp), t[i], t[i - 1])
            a = a + grad[i - 1]
        return (None, a, None, *gp)


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 2))
        self.nfe = 0
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.zeros_(m.bias)

    def forward(self, t, y):
        self.nfe += 1
        return self.net(y**3)


A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
t = torch.linspace(0.0, 1.5, 7)
with torch.no_grad():
    truth = torch.stack([torch.matrix_exp(A.T * s) for s in t])
    target = torch.tensor([[2.0, 0.0]]) @ truth
func = ODEFunc()
opt = torch.optim.Adamax(func.parameters(), lr=2e-2)
y0 = target[0].clone().requires_grad_()
for it in range(8):
    opt.zero_grad()
    ys = OdeAdjoint.apply(func, y0, t, *func.parameters())
    loss = (ys - target).abs().mean()
    loss.backward()
    opt.step()
    if it % 3 == 0:
        print(f"Iter {it:02d} | loss {loss.item():.5f} | nfe {func.nfe}")
print(y0.grad)
direct = [y0]
for a, b in zip(t[:-1], t[1:]):
    direct.append(rk4(lambda s, y: (func(s, *y),), (direct[-1],), a, b)[0])
first = torch.autograd.grad((torch.stack(direct) - target).square().sum(), tuple(func.parameters()))
second = torch.autograd.grad(
    (OdeAdjoint.apply(func, y0, t, *func.parameters()) - target).square().sum(),
    tuple(func.parameters()),
)
print(all(torch.allclose(p, q, rtol=1e-2, atol=1e-3) for p, q in zip(first, second)))
