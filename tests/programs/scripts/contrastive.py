"""Contrastive learning (SimCLR, BYOL) with cosine losses, a queue and k-nearest neighbours."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(40)


def augment(x):
    return (
        x + 0.1 * torch.randn_like(x)
        if torch.rand(()) > 0.3
        else x * (1 + 0.1 * torch.randn(len(x), 1))
    )


def nt_xent(a, b, temperature=0.2):
    z = F.normalize(torch.cat([a, b]), dim=1)
    sim = z @ z.T / temperature
    sim.fill_diagonal_(float("-inf"))
    n = len(a)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, target)


class Queue(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def push(self, keys):
        ptr = int(self.ptr)
        self.queue[:, ptr : ptr + len(keys)] = keys.T
        self.ptr[0] = (ptr + len(keys)) % self.queue.size(1)


encoder = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))
predictor = nn.Sequential(nn.Linear(8, 16), nn.Hardswish(), nn.Linear(16, 8))
target = copy.deepcopy(encoder)
for p in target.parameters():
    p.requires_grad = False
queue = Queue(8, 64)
opt = torch.optim.SGD(
    [*encoder.parameters(), *predictor.parameters()], lr=0.1, momentum=0.9, weight_decay=1e-4
)
means = torch.randn(4, 6) * 2
for step in range(20):
    labels = torch.arange(32) % 4
    x = means[labels] + 0.3 * torch.randn(32, 6)
    a, b = augment(x), augment(x)
    za, zb = encoder(a), encoder(b)
    with torch.no_grad():
        ta, tb = target(a), target(b)
    contrast = nt_xent(za, zb)
    byol = (
        2
        - F.cosine_similarity(predictor(za), tb).mean()
        - F.cosine_similarity(predictor(zb), ta).mean()
    )
    positive = torch.einsum("nc,nc->n", [F.normalize(za), F.normalize(tb)]).unsqueeze(-1)
    negative = torch.einsum("nc,ck->nk", F.normalize(za), queue.queue.clone().detach())
    moco = F.cross_entropy(
        torch.cat([positive, negative], 1) / 0.1, torch.zeros(32, dtype=torch.long)
    )
    loss = contrast + byol + 0.1 * moco
    opt.zero_grad()
    loss.backward()
    opt.step()
    queue.push(F.normalize(tb))
    with torch.no_grad():
        torch._foreach_mul_(list(target.parameters()), 0.95)
        torch._foreach_add_(list(target.parameters()), list(encoder.parameters()), alpha=0.05)
    if step % 5 == 0:
        print(f"{step} {contrast.item():.3f} {byol.item():.3f} {moco.item():.3f} {int(queue.ptr)}")
encoder.eval()
bank = F.normalize(encoder(means[labels] + 0.3 * torch.randn(32, 6)))
query = F.normalize(encoder(means + 0.2 * torch.randn(4, 6)))
values, index = (query @ bank.T).topk(5)
votes = torch.zeros(4, 4).scatter_add_(1, labels[index], values.detach())
print(votes.argmax(1).tolist())
triplet = F.triplet_margin_with_distance_loss(
    query, bank[:4], bank[4:8], distance_function=nn.PairwiseDistance(), margin=0.5
)
sides = F.cosine_embedding_loss(query, bank[:4], torch.tensor([1, -1, 1, -1]))
print(f"{triplet.item():.4f} {sides.item():.4f}")
