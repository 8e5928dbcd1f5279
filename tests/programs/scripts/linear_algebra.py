"""Least squares, principal components, ridge paths, polar factors."""

import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
A = torch.randn(30, 4)
w = torch.tensor([1.0, -1.0, 2.0, 0.5])
b = A @ w + 0.01 * torch.randn(30)
print(torch.linalg.lstsq(A, b.unsqueeze(1)).solution.squeeze().numpy().round(3))
print((torch.linalg.pinv(A) @ b).numpy().round(3))
U, S, Vh = torch.linalg.svd(A - A.mean(0), full_matrices=False)
print(S.numpy().round(4), f"{(U * S @ Vh + A.mean(0) - A).abs().max().item():.0e}" < "1e-10")
Q, R = torch.linalg.qr(A)
print(
    R.diagonal().abs().numpy().round(4),
    torch.linalg.matrix_rank(A).item(),
    f"{torch.linalg.cond(A).item():.4f}",
)
M = A.T @ A
values, vectors = torch.linalg.eigh(M)
print(
    values.numpy().round(4),
    f"{torch.linalg.slogdet(M).logabsdet.item():.4f} {torch.linalg.norm(M, 'nuc').item():.4f}",
)
log_ridge = torch.tensor(0.0, requires_grad=True)
solution = torch.linalg.solve(M + log_ridge.exp() * torch.eye(4), A.T @ b)
(solution - w).pow(2).sum().backward()
print(f"{log_ridge.grad.item():.6f}")
X = torch.linalg.matrix_exp(0.1 * (M - M.mean()) / M.norm())
print(f"{torch.linalg.det(X).item():.5f} {torch.linalg.matrix_power(X, 3).trace().item():.5f}")
print(torch.einsum("ij,jk,ik->i", A[:3], M, A[:3]).numpy().round(3))
