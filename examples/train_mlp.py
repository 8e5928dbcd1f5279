"""
A network learns a sine
=======================

A small network learns sin(x) on [-3, 3].
"""

import torch
from torch import nn, optim

torch.manual_seed(0)
x = torch.linspace(-3, 3, 64).reshape(-1, 1)
target = torch.sin(x)

net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = optim.Adam(net.parameters(), lr=0.01)
loss_function = nn.MSELoss()
print(net)

for step in range(500):
    optimizer.zero_grad()
    loss = loss_function(net(x), target)
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}")

print(f"last step  loss {loss.item():.4f}")
print(f"sin(1) is about {net(torch.tensor([[1.0]])).item():.2f}")
