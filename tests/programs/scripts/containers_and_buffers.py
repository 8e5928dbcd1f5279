"""ModuleDict, ParameterList, buffers, apply, named things, state dicts, deepcopy."""

import copy
from collections import OrderedDict

import torch
import torch.nn as nn


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleDict(
            OrderedDict(a=nn.Linear(3, 3), b=nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
        )
        self.gates = nn.ParameterList([nn.Parameter(torch.full((1,), float(k))) for k in range(2)])
        self.scales = nn.ParameterDict({"x": nn.Parameter(torch.ones(3))})
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x):
        self.calls += 1
        return (
            sum(
                torch.sigmoid(g) * branch(x)
                for g, branch in zip(self.gates, self.branches.values())
            )
            * self.scales["x"]
        )


torch.manual_seed(0)
net = Router()
net.apply(lambda m: nn.init.constant_(m.weight, 0.1) if isinstance(m, nn.Linear) else None)
y = net(torch.ones(2, 3))
y.sum().backward()
print(sorted(net.state_dict()), int(net.calls))
print([name for name, _ in net.named_modules()])
print(f"{y.sum().item():.4f}", [f"{p.grad.norm():.4f}" for p in net.gates])
twin = copy.deepcopy(net)
twin.gates[0].data.fill_(5)
print(net.gates[0].item(), twin.gates[0].item())
missing, unexpected = twin.load_state_dict(
    {k: v for k, v in net.state_dict().items() if "gates" not in k} | {"extra": torch.ones(1)},
    strict=False,
)
print(missing, unexpected)
try:
    net.load_state_dict({"calls": torch.tensor(1)})
except RuntimeError as error:
    print(str(error).splitlines()[0])
print(net.double().branches["a"].weight.dtype, sum(b.numel() for b in net.buffers()))
net.requires_grad_(False).eval()
print(any(p.requires_grad for p in net.parameters()), net.training)
print(net)
