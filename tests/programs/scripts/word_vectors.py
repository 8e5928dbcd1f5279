"""Word vectors by skip-grams, with sparse gradients."""

import torch
from torch import nn

corpus = "a cat sat on a mat a dog sat on a log the cat saw the dog the dog saw the cat".split()
words = sorted(set(corpus))
ids = [words.index(w) for w in corpus]
pairs = [
    (ids[i], ids[j])
    for i in range(len(ids))
    for j in range(max(0, i - 2), min(len(ids), i + 3))
    if i != j
]
torch.manual_seed(0)
inside = nn.Embedding(len(words), 8, sparse=True)
outside = nn.Embedding(len(words), 8, sparse=True)
optimizer = torch.optim.SparseAdam(list(inside.parameters()) + list(outside.parameters()), lr=0.02)
a, b = torch.tensor(pairs).T
for epoch in range(21):
    noise = torch.randint(0, len(words), (len(a), 3))
    near = (inside(a) * outside(b)).sum(1)
    far = (inside(a).unsqueeze(1) * outside(noise)).sum(2)
    loss = -(nn.functional.logsigmoid(near).mean() + nn.functional.logsigmoid(-far).mean())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        print(epoch, f"{loss.item():.3f}", inside.weight.grad.is_sparse)
