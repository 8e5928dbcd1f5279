"""Derivatives through collectives, split optimisers, checkpoints: `state.py save|load FOLDER`."""

import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.distributed.nn.functional as DF
from torch import nn
from torch.distributed.checkpoint import Block
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

warnings.simplefilter("error")
command, folder = sys.argv[1:]
dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
ROWS = 12


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4), nn.Tanh(), nn.Linear(4, 2))


def stepped(model, optimizer, steps):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(6, 5, generator=generator)).square().mean().backward()
        optimizer.step()


def same(a, b):
    for p, q in zip(a, b, strict=True):
        assert torch.allclose(p, q, rtol=1e-5, atol=1e-7), (p, q)


def check_derivatives():
    """What all ranks together compute is one function: its derivative by differences."""
    torch.manual_seed(rank)
    x = torch.randn(size, 3, dtype=torch.float64)

    def together(x):
        weights = torch.arange(1.0, 4.0, dtype=torch.float64) * (rank + 1)
        total = (DF.all_reduce(x.sin()) ** 2 * weights).sum()
        total = total + (DF.all_reduce(x.sin(), dist.ReduceOp.MAX) * weights).sum()
        parts = DF.all_gather(x * x)
        total = total + sum((p**2 * weights * (i + 1)).sum() for i, p in enumerate(parts))
        total = total + (DF.broadcast(x.sin(), 1) ** 2 * weights).sum()
        total = total + (DF.reduce(x.cos(), 0) ** 2 * weights).sum() * (rank == 0)
        rows = list(x.unbind(0))
        total = total + (DF.reduce_scatter(torch.empty_like(rows[0]), rows) ** 2 * weights).sum()
        swapped = DF.all_to_all([torch.empty_like(row) for row in rows], rows)
        total = total + (torch.stack(swapped) ** 3 * weights).sum()
        total = total + (DF.all_to_all_single(torch.empty_like(x), x).sin() * weights).sum()
        total = total + (DF.scatter(rows, 0) ** 2 * weights).sum()
        gathered = DF.gather(x, 1)
        return total + sum((g**2).sum() for g in gathered) * (rank == 1)

    def slope(x):  # of a function of all ranks' gradients, too
        (g,) = torch.autograd.grad(together(x), x, create_graph=True)
        return (g**2).sum()

    for function in (together, slope):

        def value(x, function=function):
            v = function(x.requires_grad_()).detach().clone()
            dist.all_reduce(v)
            return v.item()

        leaf = x.clone().requires_grad_()
        function(leaf).backward()
        for who in range(size):
            for i in range(3):
                moved = torch.zeros_like(x)
                moved[0, i] = 1e-6 if who == rank else 0
                difference = (value(x + moved) - value(x - moved)) / 2e-6
                if who == rank:
                    found = leaf.grad[0, i].item()
                    assert abs(difference - found) < 1e-6 * max(1, abs(found)), (difference, found)


def check_zero():
    """The state is split, the steps are the ordinary optimiser's."""
    plain, model = net(), DDP(net())
    ordinary = torch.optim.Adam(plain.parameters(), lr=0.01)
    split = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (ordinary, split)]
    for _ in range(4):
        stepped(plain, ordinary, 1)
        stepped(model, split, 1)
        for scheduler in schedulers:
            scheduler.step()
    same(model.parameters(), plain.parameters())
    held = torch.tensor([len(split.optim.state)])
    assert held.item() < len(list(plain.parameters()))
    dist.all_reduce(held)
    assert held.item() == len(list(plain.parameters()))
    split.consolidate_state_dict(to=1)
    if rank == 1:
        ours, theirs = split.state_dict(), ordinary.state_dict()
        assert ours["state"].keys() == theirs["state"].keys()
        same(*[[s["exp_avg"] for s in d["state"].values()] for d in (ours, theirs)])
    else:
        try:
            split.state_dict()
        except RuntimeError as error:
            assert "consolidate_state_dict" in str(error)
        else:
            raise AssertionError("a part of the state was given for all of it")
    again = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1.0)
    again.load_state_dict(ordinary.state_dict())
    stepped(plain, ordinary, 2)
    stepped(model, again, 2)
    same(model.parameters(), plain.parameters())


def own_rows():
    begin, end = rank * ROWS // size, (rank + 1) * ROWS // size
    return begin, torch.arange(ROWS * 2.0).view(ROWS, 2)[begin:end]


def run(steps, resume):
    model = DDP(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    begin, rows = own_rows()
    field = Block(torch.zeros_like(rows) if resume else rows, (begin, 0), (ROWS, 2))
    state = {"model": model.state_dict(), "field": field, "epoch": 0, "log": ["a", 1.5]}
    if resume:
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(dcp.read(folder)["optimizer"])
        assert state["epoch"] == 3 and torch.equal(field.tensor, rows)
        whole = {"field": torch.zeros(ROWS, 2)}
        dcp.load(whole, checkpoint_id=folder)
        assert torch.equal(whole["field"], torch.arange(ROWS * 2.0).view(ROWS, 2))
        assert dcp.read(folder)["log"] == ["a", 1.5]
        for bad in ({"nothing": torch.zeros(1)}, {"field": torch.zeros(1, 2)}):
            try:
                dcp.load(bad, checkpoint_id=folder)
            except (RuntimeError, ValueError):
                continue
            raise AssertionError("a checkpoint gave what it does not have")
    stepped(model, optimizer, steps)
    if not resume:
        state["epoch"] = 3
        state["optimizer"] = optimizer.sharded_state_dict()
        for _ in range(2):  # over an older one
            dcp.save(state, checkpoint_id=folder)
        dcp.async_save({"a": torch.ones(3) * rank}, checkpoint_id=folder + "-async").result()
    return model


if command == "save":
    check_derivatives()
    check_zero()
    run(3, False)
else:
    model = run(2, True)
    plain = net()
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    stepped(plain, optimizer, 3)
    stepped(plain, optimizer, 2)
    same(model.parameters(), plain.parameters())
print("done")
