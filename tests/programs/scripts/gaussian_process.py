"""Hyperparameters of a Gaussian process by the marginal likelihood."""

import math

import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x = torch.linspace(0, 5, 40).unsqueeze(1)
y = torch.sin(2 * x.squeeze()) + 0.1 * torch.randn(40)
log_length = torch.tensor(0.0, requires_grad=True)
log_signal = torch.tensor(0.0, requires_grad=True)
log_noise = torch.tensor(-1.0, requires_grad=True)


def kernel(a, b):
    return torch.exp(log_signal) ** 2 * torch.exp(
        -0.5 * (torch.cdist(a, b) / log_length.exp()) ** 2
    )


def evidence():
    K = kernel(x, x) + torch.exp(log_noise) ** 2 * torch.eye(len(x))
    L = torch.linalg.cholesky(K)
    alpha = torch.cholesky_solve(y.unsqueeze(1), L)
    fit = 0.5 * (y @ alpha).squeeze()
    return fit + L.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi), L, alpha


optimizer = torch.optim.Adam([log_length, log_signal, log_noise], lr=0.05)
for step in range(61):
    optimizer.zero_grad()
    loss, _, _ = evidence()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"{step} {loss.item():.4f}")
with torch.no_grad():
    _, L, alpha = evidence()
    new = torch.tensor([[0.5], [2.5], [4.9]])
    cross = kernel(new, x)
    mean = (cross @ alpha).squeeze(1)
    half = torch.linalg.solve_triangular(L, cross.T, upper=False)
    variance = kernel(new, new).diagonal() - (half**2).sum(0)
print(mean.numpy().round(3), variance.sqrt().numpy().round(3))
print(f"length {log_length.exp().item():.3f} noise {log_noise.exp().item():.3f}")
