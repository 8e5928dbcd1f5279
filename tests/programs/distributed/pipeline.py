"""A model in two stages on two halves of the ranks: activations go forward, gradients back."""
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
stages = [nn.Sequential(nn.Linear(8, 16), nn.Tanh()), nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))]
half = world // 2
is_first = rank < half
stage = stages[0] if is_first else stages[1]
peer = rank + half if is_first else rank - half
group = [dist.new_group(list(range(half))), dist.new_group(list(range(half, world)))][0 if is_first else 1]
optimizer = torch.optim.Adam(stage.parameters(), lr=0.02)
data = torch.Generator().manual_seed(rank % half)
X = torch.randn(32, 8, generator=data)
Y = X.sum(1, keepdim=True).sin()
MICRO = 4

for step in range(6):
    optimizer.zero_grad()
    total = torch.zeros(1)
    if is_first:
        sent, works = [], []
        for x in X.chunk(MICRO):
            out = stage(x)
            works.append(dist.isend(out.detach(), peer))
            sent.append(out)
        for out in sent:
            grad = torch.empty_like(out)
            dist.recv(grad, peer)
            out.backward(grad)
        for work in works:
            work.wait()
    else:
        for y in Y.chunk(MICRO):
            x = torch.empty(len(y), 16)
            dist.recv(x, peer)
            x.requires_grad_()
            loss = nn.functional.mse_loss(stage(x), y) / MICRO
            loss.backward()
            total += loss.detach()
            dist.send(x.grad, peer)
    for p in stage.parameters():
        dist.all_reduce(p.grad, group=group)
        p.grad.div_(half)
    optimizer.step()
    dist.all_reduce(total)
    if rank == 0:
        print(f"step {step}: loss {total.item() / half:.4f}")

ring = torch.tensor([float(rank)])
for _ in range(world - 1):
    ops = [dist.P2POp(dist.isend, ring.clone(), (rank + 1) % world), dist.P2POp(dist.irecv, ring, (rank - 1) % world)]
    for request in dist.batch_isend_irecv(ops):
        request.wait()
assert ring.item() == (rank + 1) % world
norm = sum(p.detach().square().sum() for p in stage.parameters())
norms = [torch.zeros(()) for _ in range(world)]
dist.all_gather(norms, norm)
dist.barrier()
if rank == 0:
    print("squared norms:", " ".join(f"{n.item():.4f}" for n in (norms[0], norms[-1])))
dist.destroy_process_group()
