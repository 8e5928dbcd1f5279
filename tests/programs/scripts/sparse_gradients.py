"""Sparse gradients: EmbeddingBag, SparseAdam, sparse matrices, graph propagation."""

import torch
import torch.nn as nn

torch.manual_seed(6)


class Text(nn.Module):
    def __init__(self, vocab, dim, classes):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab, dim, sparse=True, mode="mean")
        self.fc = nn.Linear(dim, classes)
        self.embedding.weight.data.uniform_(-0.5, 0.5)
        self.fc.bias.data.zero_()

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


model = Text(50, 8, 3)
sparse = torch.optim.SparseAdam(model.embedding.parameters(), lr=0.05)
dense = torch.optim.SGD(model.fc.parameters(), lr=0.5)
for step in range(10):
    lengths = torch.randint(1, 6, (12,))
    text = torch.randint(0, 50, (int(lengths.sum()),))
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1]])
    label = text[offsets] % 3
    loss = nn.functional.cross_entropy(model(text, offsets), label)
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
    if step % 3 == 0:
        g = model.embedding.weight.grad
        print(f"{step} {loss.item():.4f}", g.is_sparse, g.layout, g.coalesce().indices().shape[1])

emb = nn.Embedding(10, 3, sparse=True, padding_idx=0, max_norm=1.0)
emb(torch.tensor([[1, 2, 0], [2, 5, 0]])).sum().backward()
print(emb.weight.grad.coalesce().values(), emb.weight.grad.to_dense().sum())
pretrained = nn.Embedding.from_pretrained(torch.eye(4), freeze=True)
print(pretrained(torch.tensor([2, 0])), pretrained.weight.requires_grad)

edges = torch.tensor([[0, 1, 2, 3, 1], [1, 0, 3, 2, 2]])
n = 4
A = torch.sparse_coo_tensor(edges, torch.ones(5), (n, n)).coalesce()
deg = torch.sparse.sum(A, dim=1).to_dense()
norm = deg.clamp(min=1).rsqrt()
values = A.values() * norm[A.indices()[0]] * norm[A.indices()[1]]
A_hat = torch.sparse_coo_tensor(A.indices(), values, A.shape)
W = nn.Linear(5, 2, bias=False)
H = torch.randn(n, 5)
out = torch.sparse.mm(A_hat, W(H))
out.square().sum().backward()
print(out.shape, f"{W.weight.grad.norm():.4f}", A_hat.is_sparse, A_hat._nnz())
print(torch.allclose(out, A_hat.to_dense() @ W(H)))
