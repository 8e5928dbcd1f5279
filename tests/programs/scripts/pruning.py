"""Small weights are cut off, and stay off while training goes on."""

import torch
import torch.nn.utils.prune as prune
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
prune.l1_unstructured(model[0], "weight", amount=0.5)
prune.ln_structured(model[2], "weight", amount=2, n=2, dim=0)
print(sorted(dict(model.named_buffers())), int((model[0].weight == 0).sum()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
for _ in range(10):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}", int((model[0].weight == 0).sum()), prune.is_pruned(model))
prune.global_unstructured(
    [(model[0], "weight"), (model[2], "weight")], pruning_method=prune.L1Unstructured, amount=20
)
prune.remove(model[0], "weight")
print(int((model[0].weight == 0).sum()), sorted(model.state_dict()))
