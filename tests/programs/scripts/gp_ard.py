"""Gaussian process: marginal likelihood by Cholesky, ARD kernel, LBFGS, posterior samples."""

import torch
from torch import nn
from torch.distributions import Gamma, LogNormal, MultivariateNormal, Normal

torch.set_default_dtype(torch.float64)
torch.manual_seed(11)


class Positive(nn.Module):
    def forward(self, x):
        return nn.functional.softplus(x)

    def right_inverse(self, y):
        return y + torch.log(-torch.expm1(-y))


class RBF(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.lengthscale = nn.Parameter(torch.ones(dims))
        self.outputscale = nn.Parameter(torch.tensor(1.0))
        nn.utils.parametrize.register_parametrization(self, "lengthscale", Positive())
        nn.utils.parametrize.register_parametrization(self, "outputscale", Positive())

    def forward(self, a, b):
        d = torch.cdist(a / self.lengthscale, b / self.lengthscale)
        return self.outputscale * torch.exp(-0.5 * d.square())


import torch.nn.utils.parametrize  # noqa: E402


class GP(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        self.register_buffer("x", x)
        self.register_buffer("y", y, persistent=False)
        self.kernel = RBF(x.shape[-1])
        self.log_noise = nn.Parameter(torch.tensor(-2.0))
        self.mean = nn.Parameter(y.mean().clone())

    def covariance(self):
        n = len(self.x)
        return self.kernel(self.x, self.x) + (self.log_noise.exp() + 1e-6) * torch.eye(n)

    def forward(self):
        return MultivariateNormal(self.mean.expand(len(self.x)), self.covariance())

    @torch.no_grad()
    def predict(self, x):
        L = torch.linalg.cholesky(self.covariance())
        k = self.kernel(self.x, x)
        alpha = torch.cholesky_solve((self.y - self.mean).unsqueeze(-1), L)
        v = torch.linalg.solve_triangular(L, k, upper=False)
        return self.mean + (k.mT @ alpha).squeeze(-1), self.kernel(x, x) - v.mT @ v


x = torch.rand(40, 2) * 4 - 2
y = torch.sin(2 * x[:, 0]) + 0.1 * x[:, 1] + 0.05 * torch.randn(40)
model = GP(x, y)
priors = {"lengthscale": Gamma(3.0, 6.0), "outputscale": LogNormal(0.0, 1.0)}
opt = torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=8, line_search_fn="strong_wolfe")


def closure():
    opt.zero_grad()
    loss = -model().log_prob(model.y)
    for name, prior in priors.items():
        loss = loss - prior.log_prob(getattr(model.kernel, name)).sum()
    loss.backward()
    return loss


for i in range(3):
    print(f"{i} {opt.step(closure).item():.4f}")
print(["%.3f" % v for v in model.kernel.lengthscale], f"{model.log_noise.exp():.5f}")
grid = torch.cartesian_prod(torch.linspace(-1, 1, 3), torch.tensor([0.0, 1.0]))
mean, cov = model.predict(grid)
print(mean.numpy().round(3))
print(cov.diagonal().clamp_min(0).sqrt().numpy().round(3))
draws = MultivariateNormal(mean, cov + 1e-6 * torch.eye(6)).rsample((500,))
print((draws.mean(0) - mean).abs().max() < 0.1, draws.shape)
print(sorted(model.state_dict()))
print(Normal(mean, cov.diagonal().sqrt()).cdf(torch.zeros(6)).numpy().round(3))
