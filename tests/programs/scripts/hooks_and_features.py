"""Forward and backward hooks: features, gradients, changed inputs."""

import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))
features, slopes = {}, []


def keep(name):
    def hook(module, inputs, output):
        features[name] = output.detach()

    return hook


handles = [module.register_forward_hook(keep(name)) for name, module in net.named_children()]
net[3].register_full_backward_hook(
    lambda m, gi, go: slopes.append((gi[0].norm().item(), go[0].norm().item()))
)
net[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
x = torch.linspace(-1, 1, 16).reshape(2, 1, 8)
out = net(x)
out.register_hook(lambda g: g * 0.5)
out.pow(2).sum().backward()
for name, value in features.items():
    print(name, tuple(value.shape), f"{value.mean():.4f}")
print([f"{a:.4f} {b:.4f}" for a, b in slopes])
for h in handles:
    h.remove()
features.clear()
net(x)
print(len(features), f"{net[0].weight.grad.norm():.4f}")
