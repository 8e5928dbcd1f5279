"""A posterior by the evidence bound: rsample, kl_divergence, transforms."""

import torch
from torch import distributions as D

torch.manual_seed(0)
x = torch.linspace(-1, 1, 30)
y = 1.5 * x - 0.7 + 0.2 * torch.randn(30)
mean = torch.zeros(2, requires_grad=True)
log_scale = torch.zeros(2, requires_grad=True)
log_noise = torch.zeros((), requires_grad=True)
prior = D.Independent(D.Normal(torch.zeros(2), 3 * torch.ones(2)), 1)
optimizer = torch.optim.Adam([mean, log_scale, log_noise], lr=0.05)
for step in range(101):
    q = D.Independent(D.Normal(mean, log_scale.exp()), 1)
    w = q.rsample((8,))
    guess = w[:, :1] * x + w[:, 1:]
    likelihood = D.Normal(guess, log_noise.exp()).log_prob(y).sum(1).mean()
    loss = D.kl_divergence(q, prior) - likelihood
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, f"{loss.item():.2f}")
print([round(m, 1) for m in mean.tolist()])
positive = D.TransformedDistribution(
    D.Normal(0.0, 1.0), [D.transforms.ExpTransform(), D.transforms.AffineTransform(1.0, 2.0)]
)
print(f"{positive.log_prob(torch.tensor(3.0)).item():.4f}", positive.sample((2,)).shape)
print(
    f"{D.Gamma(2.0, 3.0).entropy().item():.4f} {D.Beta(2.0, 3.0).mean.item():.4f} {D.kl_divergence(D.Bernoulli(0.3), D.Bernoulli(0.6)).item():.4f}"
)
