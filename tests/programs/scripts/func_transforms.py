"""torch.func: MAML with functional_call, per-sample gradients, ensembles, Jacobians, NTK."""

import functools

import torch
import torch.nn as nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

torch.manual_seed(4)
net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
params = {k: v.detach() for k, v in net.named_parameters()}


def loss_fn(params, x, y):
    return nn.functional.mse_loss(functional_call(net, params, (x,)), y)


def adapt(params, x, y, lr=0.1, steps=2):
    for _ in range(steps):
        grads = grad(loss_fn)(params, x, y)
        params = {k: p - lr * grads[k] for k, p in params.items()}
    return params


def task_loss(params, xs, ys, xq, yq):
    return loss_fn(adapt(params, xs, ys), xq, yq)


def tasks(n, k=5):
    a = torch.rand(n, 1, 1) * 4 + 0.1
    b = torch.rand(n, 1, 1) * 3.14
    x = torch.rand(n, 2 * k, 1) * 10 - 5
    y = a * torch.sin(x + b)
    return x[:, :k], y[:, :k], x[:, k:], y[:, k:]


for it in range(6):
    batch = tasks(8)

    def meta(p):
        return vmap(functools.partial(task_loss, p))(*batch).mean()

    grads, value = grad_and_value(meta)(params)
    params = {k: p - 0.05 * grads[k] for k, p in params.items()}
    print(f"{it} {value:.4f}")

x, y = torch.randn(6, 1), torch.randn(6, 1)
sample_grads = vmap(grad(loss_fn), in_dims=(None, 0, 0))(params, x, y)
print({k: tuple(v.shape) for k, v in sample_grads.items()})
total = grad(loss_fn)(params, x, y)
print(all(torch.allclose(sample_grads[k].mean(0), total[k], atol=1e-5) for k in total))

models = [nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1)) for _ in range(3)]
stacked, buffers = stack_module_state(models)
base = models[0].to("meta") if False else models[0]
out = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(
    stacked, buffers, x
)
print(out.shape, torch.allclose(out[2], models[2](x)))


def single(params, x):
    return functional_call(net, params, (x.unsqueeze(0),)).squeeze(0)


def ntk(params, a, b):
    ja = vmap(jacrev(single), (None, 0))(params, a)
    jb = vmap(jacrev(single), (None, 0))(params, b)
    return sum(
        torch.einsum("Naf,Mbf->NMab", ja[k].flatten(2), jb[k].flatten(2)) for k in ja
    ).squeeze()


K = ntk(params, x, x)
print(K.shape, torch.allclose(K, K.T), bool(torch.linalg.eigvalsh(K).min() > -1e-4))


def f(v):
    return (v.sin() * v.roll(1)).sum()


v = torch.arange(3.0)
print(hessian(f)(v))
print(torch.allclose(jacfwd(jacrev(f))(v), jacrev(jacfwd(f))(v)))
value, tangent = jvp(f, (v,), (torch.ones(3),))
_, pull = vjp(f, v)
print(f"{value:.4f} {tangent:.4f}", torch.allclose(pull(torch.ones(()))[0].sum(), tangent))
print(
    vmap(torch.dot, in_dims=(0, None))(torch.eye(3), v),
    vmap(lambda a: a.sum(), chunk_size=2)(torch.eye(3)),
)
print(vmap(lambda a: a + torch.randn(()), randomness="different")(torch.zeros(3)).unique().numel())
