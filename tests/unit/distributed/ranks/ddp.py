"""DistributedDataParallel against one process on the whole batch; prints a digest of all bits."""

import hashlib
import json
import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

warnings.simplefilter("error")
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
BATCH = 24
data = torch.Generator().manual_seed(3)
X, Y = torch.randn(BATCH, 6, generator=data), torch.randint(0, 3, (BATCH,), generator=data)
mine = slice(rank * BATCH // size, (rank + 1) * BATCH // size)


def net(seed=0, width=600):
    """Large enough for several buckets, one of a single parameter."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 3)
    )


def trained(model, optimizer, x, y, steps=4, micro=1):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def mean_over_ranks(losses):
    losses = losses.clone()
    dist.all_reduce(losses, dist.ReduceOp.AVG)
    return losses


def close(a, b, what):
    for p, q in zip(a, b, strict=True):
        assert torch.allclose(p, q, rtol=1e-4, atol=1e-6), (what, (p - q).abs().max())


reference = net()
expected = trained(reference, torch.optim.SGD(reference.parameters(), 0.1, 0.9), X, Y)
digest = hashlib.sha256()
for options in (
    {},
    {"gradient_as_bucket_view": True},
    {"bucket_cap_mb": 0.01},
    {"find_unused_parameters": True},
    {"static_graph": True},
):
    model = DDP(net(seed=rank), **options)  # the ranks begin with different ones
    close([mean_over_ranks(next(model.parameters()).detach())], [next(net().parameters())], "start")
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9)
    losses = mean_over_ranks(trained(model, optimizer, X[mine], Y[mine]))
    close([losses], [expected], options)
    close(model.parameters(), reference.parameters(), options)
    for p in model.parameters():
        digest.update(p.detach().numpy().tobytes())
assert list(model.state_dict()) == ["module." + name for name in reference.state_dict()]

# --- hooks of communication -----------------------------------------------------------------------
for hook, tolerance in (
    (default_hooks.allreduce_hook, 1e-5),
    (default_hooks.fp16_compress_hook, 1e-2),
    (default_hooks.bf16_compress_hook, 5e-2),
):
    model = DDP(net())
    model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9)
    losses = mean_over_ranks(trained(model, optimizer, X[mine], Y[mine]))
    assert torch.allclose(losses, expected, atol=tolerance), (hook, losses, expected)

# --- accumulation without an exchange -------------------------------------------------------------
model, plain = DDP(net()), net()
half = (mine.stop - mine.start) // 2
with model.no_sync():
    F.cross_entropy(model(X[mine][:half]), Y[mine][:half]).backward()
own = [p.grad.clone() for p in model.parameters()]
every = [torch.zeros_like(own[0]) for _ in range(size)]
dist.all_gather(every, own[0])
assert not torch.equal(every[0], every[1])
F.cross_entropy(model(X[mine][half:]), Y[mine][half:]).backward()
(2 * F.cross_entropy(plain(X), Y)).backward()
close([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()], "no_sync")

# --- buffers, and parameters that some ranks or all do not use ------------------------------------


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.never = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x, first):
        return self.norm(self.a(x) if first else self.b(x))


torch.manual_seed(0)
model = DDP(Branches(), find_unused_parameters=True)
model(X[mine], rank == 0).sum().backward()
model.zero_grad()
F.cross_entropy(model(X[mine], rank == 0), Y[mine]).backward()
assert model.module.never.weight.grad is None
assert model.module.a.weight.grad is not None and model.module.b.weight.grad is not None
statistics = [torch.zeros(3) for _ in range(size)]
model(X[mine], True)
with torch.no_grad():
    model(X[mine], True)
torch.manual_seed(0)
model = DDP(Branches())
model(X[mine], True).sum().backward()
try:
    model(X[mine], True)
except RuntimeError as error:
    assert "b.weight" in str(error) and "find_unused_parameters" in str(error)
else:
    raise AssertionError("unused parameters were not noticed")

# --- sparse gradients, a shared parameter, a frozen one -------------------------------------------
torch.manual_seed(0)
table, whole = nn.Embedding(7, 4, sparse=True), nn.Embedding(7, 4)
whole.load_state_dict(table.state_dict())
model = DDP(nn.Sequential(table, nn.Linear(4, 1)))
ids = torch.randint(0, 7, (8,), generator=data)
part = ids[rank * 8 // size : (rank + 1) * 8 // size]
model(part).mean().backward()
model.module[1](whole(ids)).mean().backward()
assert table.weight.grad.is_sparse
close([table.weight.grad.to_dense()], [whole.weight.grad], "sparse")
tied = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False))
tied[1].weight = tied[0].weight
tied.register_parameter("frozen", nn.Parameter(torch.zeros(2), requires_grad=False))
model = DDP(tied)
model(X[mine]).square().mean().backward()
close(
    [model.module[0].weight.grad],
    torch.autograd.grad(tied(X).square().mean(), tied[0].weight),
    "tied",
)

# --- uneven inputs --------------------------------------------------------------------------------
for divide in (True, False):
    model = DDP(net(width=20))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    done = 0
    with model.join(divide_by_initial_world_size=divide):
        for _ in range(2 + rank):
            optimizer.zero_grad()
            F.cross_entropy(model(X[mine]), Y[mine]).backward()
            optimizer.step()
            done += 1
    assert done == 2 + rank
    others = [torch.zeros_like(model.module[0].weight) for _ in range(size)]
    dist.all_gather(others, model.module[0].weight)
    assert all(torch.equal(others[0], other) for other in others)
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)))
raised = ""
try:
    with Join([model], throw_on_early_termination=True):
        for _ in range(1 + rank):
            model(X[mine]).sum().backward()
except RuntimeError as error:
    raised = str(error)
assert "exhausted inputs" in raised
operations = [None] * dist.get_world_size()
dist.all_gather_object(operations, dist.group.WORLD._operations)
assert len(set(operations)) == 1, operations  # ranks that wait for others compare their numbers

print(json.dumps({"digest": digest.hexdigest(), "losses": [f"{v:.4f}" for v in expected.tolist()]}))
