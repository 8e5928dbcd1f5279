"""Variational inference three ways: Bayes by backprop, BBVI and an ELBO of a mixture."""

import torch
import torch.distributions as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import kl_divergence
from torch.distributions.kl import register_kl

torch.manual_seed(21)


class BayesLinear(nn.Module):
    def __init__(self, n_in, n_out, prior=1.0):
        super().__init__()
        self.mu = nn.Parameter(torch.empty(n_out, n_in + 1).normal_(0, 0.1))
        self.rho = nn.Parameter(torch.full((n_out, n_in + 1), -3.0))
        self.register_buffer("prior", torch.tensor(prior))

    @property
    def posterior(self):
        return dist.Independent(dist.Normal(self.mu, F.softplus(self.rho)), 2)

    def kl(self):
        prior = dist.Independent(dist.Normal(torch.zeros_like(self.mu), self.prior), 2)
        return kl_divergence(self.posterior, prior)

    def forward(self, x):
        w = self.posterior.rsample()
        return F.linear(x, w[:, :-1], w[:, -1])


x = torch.linspace(-2, 2, 48).unsqueeze(1)
y = x.pow(3) * 0.3 + 0.1 * torch.randn_like(x)
layers = nn.ModuleList([BayesLinear(1, 16), BayesLinear(16, 1)])
opt = torch.optim.NAdam(layers.parameters(), lr=2e-2)
for step in range(40):
    h = torch.tanh(layers[0](x))
    likelihood = dist.Normal(layers[1](h), 0.1).log_prob(y).sum()
    kl = sum(layer.kl() for layer in layers)
    loss = kl - likelihood
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 13 == 0:
        print(f"{step} {loss.item():.1f} {kl.item():.2f}")

# black-box VI of a rate, score-function estimator
data = dist.Poisson(4.0).sample((30,))
log_a, log_b = torch.zeros((), requires_grad=True), torch.zeros((), requires_grad=True)
opt = torch.optim.Adagrad([log_a, log_b], lr=0.3)
for step in range(30):
    q = dist.Gamma(log_a.exp(), log_b.exp())
    rate = q.sample((20,))
    joint = dist.Poisson(rate[:, None]).log_prob(data).sum(1) + dist.Exponential(1.0).log_prob(rate)
    log_q = q.log_prob(rate)
    signal = (joint - log_q).detach()
    loss = -(log_q * (signal - signal.mean())).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"{q.mean.item():.3f} {q.entropy().item():.3f}")

# the exact answer, and pathwise gradients of Gamma, Beta and Dirichlet
exact = dist.Gamma(1 + data.sum(), 1.0 + len(data))
print(f"{exact.mean:.3f} {kl_divergence(q, exact).item():.3f}")
conc = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
for q in (
    dist.Dirichlet(conc),
    dist.Beta(conc, conc + 1),
    dist.Gamma(conc, 2.0),
    dist.StudentT(conc + 2),
):
    s = q.rsample((100,))
    (g,) = torch.autograd.grad(s.square().mean(), conc)
    print(type(q).__name__, s.shape, ["%.3f" % v for v in g])

mixture = dist.MixtureSameFamily(
    dist.Categorical(logits=torch.tensor([0.0, 1.0])),
    dist.Independent(dist.Laplace(torch.tensor([[-2.0, 0.0], [2.0, 1.0]]), torch.ones(2, 2)), 1),
)
z = mixture.sample((5,))
print(mixture.log_prob(z), mixture.mean, mixture.event_shape)


class Spike(dist.Normal):
    pass


@register_kl(Spike, dist.Normal)
def _kl_spike(p, q):
    return torch.zeros(()) + 42


print(kl_divergence(Spike(0.0, 1.0), dist.Normal(0.0, 1.0)))
try:
    dist.Normal(torch.tensor([1.0]), torch.tensor([-1.0]))
except ValueError as error:
    print(str(error).splitlines()[0])
relaxed = dist.RelaxedOneHotCategorical(torch.tensor(0.5), logits=torch.zeros(4))
print(relaxed.rsample(), F.gumbel_softmax(torch.zeros(2, 4), tau=0.7, hard=True))
