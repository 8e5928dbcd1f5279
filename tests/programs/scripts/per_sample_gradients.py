"""vmap, grad and jacrev from torch.func."""

import torch
from torch import nn
from torch.func import functional_call, grad, jacfwd, jacrev, vmap

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
params = {k: v.detach() for k, v in model.named_parameters()}
x, y = torch.randn(6, 3), torch.randint(0, 2, (6,))


def loss(params, x, y):
    return nn.functional.cross_entropy(
        functional_call(model, params, (x.unsqueeze(0),)), y.unsqueeze(0)
    )


each = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
print({k: tuple(v.shape) for k, v in each.items()})
mean = {k: v.mean(0) for k, v in each.items()}
nn.functional.cross_entropy(model(x), y).backward()
print(all(torch.allclose(mean[k], p.grad, atol=1e-6) for k, p in model.named_parameters()))
f = lambda v: torch.sin(v) * v.sum()
print(torch.allclose(jacrev(f)(x[0]), jacfwd(f)(x[0]), atol=1e-6), vmap(jacrev(f))(x).shape)
norms = torch.stack([v.flatten(1).norm(dim=1) for v in each.values()]).norm(dim=0)
print([f"{n:.4f}" for n in norms.tolist()])
