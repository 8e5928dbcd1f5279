"""Learning to learn: gradients through the steps of an inner loop."""

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
outer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(12):
    total = 0.0
    for task in range(3):
        amplitude, phase = 0.5 + torch.rand(1), 3 * torch.rand(1)
        x = torch.linspace(-2, 2, 10).unsqueeze(1)
        y = amplitude * torch.sin(x + phase)
        weights = dict(model.named_parameters())
        for _ in range(2):
            loss = nn.functional.mse_loss(functional_call(model, weights, (x[::2],)), y[::2])
            grads = torch.autograd.grad(loss, weights.values(), create_graph=True)
            weights = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), grads)}
        total = total + nn.functional.mse_loss(functional_call(model, weights, (x[1::2],)), y[1::2])
    outer.zero_grad()
    total.backward()
    outer.step()
    if step % 4 == 0:
        print(step, f"{total.item():.3f}")
