"""Weights that are functions of parameters: norms, orthogonal, symmetric."""

import torch
import torch.nn.utils.parametrize as parametrize
from torch import nn
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)


torch.manual_seed(0)
layer = nn.Linear(4, 4)
parametrize.register_parametrization(layer, "weight", Symmetric())
print(torch.equal(layer.weight, layer.weight.T), list(dict(layer.named_parameters())))
normed = weight_norm(nn.Linear(4, 3))
print(sorted(normed.state_dict()), f"{normed.weight.norm():.4f}")
turned = orthogonal(nn.Linear(4, 4))
print(torch.allclose(turned.weight @ turned.weight.T, torch.eye(4), atol=1e-5))
spectral = spectral_norm(nn.Linear(6, 5))
for _ in range(20):
    spectral(torch.ones(2, 6))
print(f"{torch.linalg.matrix_norm(spectral.weight, 2).item():.2f}")
model = nn.Sequential(layer, nn.Tanh(), turned, nn.Tanh(), normed)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 4)
for step in range(10):
    loss = (model(x) - x[:, :3] ** 2).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}", torch.equal(layer.weight, layer.weight.T))
parametrize.remove_parametrizations(layer, "weight")
print(list(dict(layer.named_parameters())), type(layer).__name__)
