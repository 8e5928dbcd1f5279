"""Indexing, masks, broadcasting, in-place work, printing."""

import numpy as np
import torch

torch.manual_seed(0)
x = torch.arange(24).reshape(2, 3, 4)
print(x[:, 1], x[..., -1].sum(), x[x % 5 == 0])
print(x.float().mean(dim=(0, 2)), x.permute(2, 0, 1).shape, x.unfold(2, 2, 2).shape)
a = torch.linspace(0, 1, 5)
print(a.unsqueeze(1) * a, torch.where(a > 0.4, a, -a))
b = torch.zeros(3, 4)
b[1:, ::2] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
b[0].add_(5).mul_(2)
print(b, b.T.contiguous().view(-1)[:5])
print(torch.cat([b, b]).shape, torch.stack([b, b]).shape, [t.tolist() for t in b.split([1, 2])][0])
n = np.arange(3.0)
shared = torch.from_numpy(n)
shared += 1
print(n, shared.dtype, torch.tensor([1, 2.5]).dtype, torch.result_type(torch.tensor(1), 2.0))
print(torch.rand(2, 2), torch.randn(3), torch.randint(0, 10, (4,)), torch.randperm(5))
v, i = torch.sort(torch.tensor([3.0, 1.0, 2.0]), descending=True)
print(v, i, torch.topk(torch.tensor([1.0, 9.0, 4.0]), 2), torch.unique(torch.tensor([2, 1, 2])))
print(
    torch.tensor([1e-8, 1.0, 1e8]), torch.tensor([float("nan"), float("inf")]), torch.tensor(True)
)
print(
    torch.bucketize(torch.tensor([0.1, 0.6]), torch.tensor([0.0, 0.5, 1.0])),
    torch.cumsum(torch.arange(4), 0),
)
print(
    torch.einsum("bij,bjk->bik", torch.ones(2, 2, 3), torch.ones(2, 3, 1)).squeeze(),
    torch.full((2,), 7),
)
y = torch.ones(2, 2, requires_grad=True)
z = (y * 3).sum()
print(y, z, z.grad_fn is not None, y.is_leaf)
