"""Parametrised weights: orthogonal, spectral, weight norm, low rank, custom ones."""

import copy

import torch
import torch.nn as nn
import torch.nn.utils.parametrize as P
from torch.nn.utils import parameters_to_vector, remove_weight_norm, vector_to_parameters
from torch.nn.utils import weight_norm as old_weight_norm
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

torch.manual_seed(1)


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class MatrixExponential(nn.Module):
    def forward(self, X):
        return torch.matrix_exp(X)


class LowRank(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank

    def forward(self, A, B):
        return A @ B

    def right_inverse(self, W):
        U, S, Vh = torch.linalg.svd(W, full_matrices=False)
        root = S[: self.rank].sqrt()
        return U[:, : self.rank] * root, root[:, None] * Vh[: self.rank]


spd = nn.Linear(3, 3)
P.register_parametrization(spd, "weight", Symmetric())
P.register_parametrization(spd, "weight", MatrixExponential())
print(spd)
print(
    torch.linalg.eigvalsh(spd.weight).gt(0).all(),
    P.is_parametrized(spd),
    P.is_parametrized(spd, "bias"),
)
low = nn.Linear(6, 4)
before = low.weight.detach().clone()
P.register_parametrization(low, "weight", LowRank(4))
print([n for n, _ in low.named_parameters()], torch.allclose(before, low.weight, atol=1e-5))
ortho = orthogonal(nn.Linear(4, 4, bias=False))
lip = spectral_norm(nn.Linear(4, 8), n_power_iterations=5)
wn = weight_norm(nn.Conv1d(2, 3, 3), dim=0)
x = torch.randn(16, 4)
opt = torch.optim.ASGD([*ortho.parameters(), *lip.parameters()], lr=0.1)
for step in range(5):
    with P.cached():
        loss = (lip(ortho(x)) - 1).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.4f}")
W = ortho.weight
print(torch.dist(W.T @ W, torch.eye(4)) < 1e-5)
print(f"{torch.linalg.matrix_norm(lip.weight, 2).item():.3f}")
print(sorted(wn.state_dict()), wn.parametrizations.weight.original0.shape)
clone = copy.deepcopy(ortho)
print(torch.equal(clone.weight, ortho.weight), type(clone).__name__)
P.remove_parametrizations(ortho, "weight", leave_parametrized=True)
print(type(ortho).__name__, ortho.weight.requires_grad, isinstance(ortho.weight, nn.Parameter))
P.remove_parametrizations(spd, "weight")
print(sorted(dict(spd.named_parameters())))
try:
    P.register_parametrization(nn.Linear(2, 2), "weights", Symmetric())
except ValueError as error:
    print(error)
m = old_weight_norm(nn.Linear(5, 3), name="weight")
print(sorted(m.state_dict()), m(torch.ones(1, 5)).shape)
remove_weight_norm(m)
print(sorted(m.state_dict()))
vector = parameters_to_vector(m.parameters())
vector_to_parameters(torch.zeros_like(vector), m.parameters())
print(vector.shape, m(torch.ones(1, 5)))
tied = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7, bias=False))
tied[1].weight = tied[0].weight
print(
    len(list(tied.parameters())),
    len(tied.state_dict()),
    len(dict(tied.named_parameters(remove_duplicate=False))),
)
