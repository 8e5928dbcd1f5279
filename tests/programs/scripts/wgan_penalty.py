"""A critic with a penalty on the norm of its gradients: second derivatives."""

import torch
import torch.nn as nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 32), nn.Softplus(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.0, 0.9))
for step in range(40):
    real, fake = torch.randn(32, 2) + 2, torch.randn(32, 2)
    mix = torch.rand(32, 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(between)
    grads = torch.autograd.grad(
        score, between, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True
    )[0]
    penalty = ((grads.norm(2, dim=1) - 1) ** 2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 13 == 0:
        print(step, f"{loss.item():.3f} {penalty.item():.3f}")
