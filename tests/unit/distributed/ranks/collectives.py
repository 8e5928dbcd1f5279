"""Collective operations against NumPy: all dtypes, reductions, layouts, sizes, groups."""

import itertools
import os
import random
import warnings
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

warnings.simplefilter("error")
dist.init_process_group(os.environ.get("BACKEND", "gloo"), timeout=timedelta(seconds=20))
rank, size = dist.get_rank(), dist.get_world_size()
assert (rank, size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
OTHERS = [torch.bool, torch.complex64, torch.complex128]
Op = dist.ReduceOp
NUMPY = {
    Op.SUM: lambda a: a.sum(0),
    Op.PRODUCT: lambda a: a.prod(0),
    Op.MIN: lambda a: a.min(0),
    Op.MAX: lambda a: a.max(0),
    Op.AVG: lambda a: a.mean(0),
    Op.BAND: np.bitwise_and.reduce,
    Op.BOR: np.bitwise_or.reduce,
    Op.BXOR: np.bitwise_xor.reduce,
}


def sample(dtype, shape, r, seed=0):
    """What rank r has; all ranks know it."""
    generator = torch.Generator().manual_seed(100 * seed + r)
    whole = torch.randint(0, 4, shape, generator=generator)
    return whole.to(dtype) if dtype != torch.bool else whole % 2 == 0


def layouts(tensor):
    """The same values in memory of several kinds."""
    yield tensor.clone()
    gaps = torch.zeros(2 * tensor.shape[0], *tensor.shape[1:], dtype=tensor.dtype)[::2]
    yield gaps.copy_(tensor)
    if tensor.dim() == 2:
        yield tensor.t().contiguous().t()
    if tensor.is_complex():
        yield tensor.conj().resolve_conj().conj()


def as_numpy(tensor):
    wide = tensor.to(torch.float32) if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
    return wide.resolve_conj().numpy()


def same(tensor, expected, what):
    assert np.array_equal(as_numpy(tensor), expected), (what, tensor, expected)


def ops_of(dtype):
    if dtype == torch.bool:
        return [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.BAND, Op.BOR, Op.BXOR]
    if dtype.is_complex:
        return [Op.SUM, Op.PRODUCT, Op.AVG]
    if dtype.is_floating_point:
        return [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.AVG]
    return [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.BAND, Op.BOR, Op.BXOR]


def reduced(op, dtype, shape):
    every = np.stack([as_numpy(sample(dtype, shape, r)) for r in range(size)])
    if dtype == torch.bool:
        any_, all_ = every.any(0), every.all(0)
        choices = {Op.SUM: any_, Op.MAX: any_, Op.BOR: any_, Op.BXOR: every.sum(0) % 2 == 1}
        return choices.get(op, all_)
    return NUMPY[op](every).astype(every.dtype)


for dtype in FLOATS + INTS + OTHERS:
    shape = (3, 4)
    for op, asynchronous in itertools.product(ops_of(dtype), (False, True)):
        for tensor in layouts(sample(dtype, shape, rank)):
            work = dist.all_reduce(tensor, op, async_op=asynchronous)
            if asynchronous:
                assert work.wait() and work.is_completed() and work.is_success()
            same(tensor, reduced(op, dtype, shape), (op, dtype))
    for root in range(size):
        for tensor in layouts(sample(dtype, shape, rank)):
            version = tensor._version
            dist.broadcast(tensor, root)
            same(tensor, as_numpy(sample(dtype, shape, root)), ("broadcast", dtype))
            assert rank == root or tensor._version > version
        tensor = sample(dtype, shape, rank)
        dist.reduce(tensor, root, Op.SUM)
        if rank == root:
            same(tensor, reduced(Op.SUM, dtype, shape), ("reduce", dtype))
    own = next(itertools.islice(layouts(sample(dtype, shape, rank)), 1, None))
    parts = [torch.zeros(shape, dtype=dtype) for _ in range(size)]
    dist.all_gather(parts, own)
    for r, part in enumerate(parts):
        same(part, as_numpy(sample(dtype, shape, r)), ("all_gather", dtype))
    whole = torch.zeros(size * 3, 4, dtype=dtype)
    dist.all_gather_into_tensor(whole, own)
    same(whole, np.concatenate([as_numpy(p) for p in parts]), ("all_gather_into_tensor", dtype))
    if dtype != torch.bool:
        piece = torch.zeros(shape, dtype=dtype)
        dist.reduce_scatter_tensor(piece, whole)
        same(piece, as_numpy(parts[rank]) * size, ("reduce_scatter_tensor", dtype))
        dist.reduce_scatter(piece, [p.clone() for p in parts])
        same(piece, as_numpy(parts[rank]) * size, ("reduce_scatter", dtype))
    got = [torch.zeros(shape, dtype=dtype) for _ in range(size)] if rank == 1 else None
    dist.gather(own, got, dst=1)
    if rank == 1:
        for r in range(size):
            same(got[r], as_numpy(parts[r]), ("gather", dtype))
    piece = torch.zeros(shape, dtype=dtype)
    dist.scatter(piece, parts if rank == 0 else None, src=0)
    same(piece, as_numpy(parts[rank]), ("scatter", dtype))
    received = torch.zeros_like(whole)
    dist.all_to_all_single(received, whole)
    same(received, np.concatenate([as_numpy(parts[rank])] * size), ("all_to_all_single", dtype))

# --- uneven parts, large and empty tensors --------------------------------------------------------
sent = [torch.full((j + 1,), float(10 * rank + j)) for j in range(size)]
received = [torch.zeros(rank + 1) for _ in range(size)]
dist.all_to_all(received, sent)
for r in range(size):
    same(received[r], np.full(rank + 1, 10 * r + rank, "f4"), "all_to_all")
flat = torch.zeros(size * (rank + 1))
dist.all_to_all_single(flat, torch.cat(sent), [rank + 1] * size, list(range(1, size + 1)))
same(flat, torch.cat(received).numpy(), "all_to_all_single with sizes")
uneven = [torch.zeros(r) for r in range(size)]
dist.all_gather(uneven, torch.full((rank,), 1.0 + rank))
for r in range(size):
    same(uneven[r], np.full(r, 1.0 + r, "f4"), "uneven all_gather")
dist.all_reduce(torch.zeros(0))
for dtype in FLOATS + INTS + OTHERS:  # long enough for shared memory: chunks, and a rest
    shape = (600_001 // torch.empty(0, dtype=dtype).element_size(),)
    ops, works, tensors = ops_of(dtype), [], []
    for op in ops:
        tensors.append(sample(dtype, shape, rank))
        works.append(dist.all_reduce(tensors[-1], op, async_op=True))
    for op, work, tensor in zip(ops, works, tensors, strict=True):
        work.wait()
        same(tensor, reduced(op, dtype, shape), ("long", op, dtype))
large = torch.arange(300_000, dtype=torch.float64) * (rank + 1)
dist.all_reduce(large)
same(large, np.arange(300_000.0) * sum(range(1, size + 1)), "large")
view = torch.zeros(size, 5)  # the input lies in the output
view[rank] = rank
dist.all_gather_into_tensor(view, view[rank])
same(view, np.repeat(np.arange(float(size), dtype="f4")[:, None], 5, 1), "overlapping all_gather")

# --- the order of asynchronous and other operations -----------------------------------------------
random.seed(1)
works, tensors, expected = [], [], []
for step in range(60):
    tensor = torch.full((random.choice([1, 7, 40_000]),), float(rank + step))
    asynchronous = random.random() < 0.6
    work = dist.all_reduce(tensor, async_op=asynchronous)
    works += [work] if asynchronous else []
    tensors.append(tensor)
    expected.append(sum(range(size)) + size * step)
for work in works:
    work.wait()
for tensor, value in zip(tensors, expected, strict=True):
    assert tensor[0] == tensor[-1] == value
future = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda f: f.value()[0] * 2)
assert future.wait().tolist() == [2 * size] * 2

# --- messages -------------------------------------------------------------------------------------
right, left = (rank + 1) % size, (rank - 1) % size
for dtype, length in itertools.product([torch.float32, torch.bool, torch.bfloat16], (1, 50_000)):
    given, taken = (
        torch.full((length,), rank % 2 + 1).to(dtype),
        torch.zeros(2 * length, dtype=dtype)[::2],
    )
    ops = [dist.P2POp(dist.isend, given, right), dist.P2POp(dist.irecv, taken, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert (taken == torch.full((length,), left % 2 + 1).to(dtype)).all()
if rank == 0:
    seen = set()
    for _ in range(size - 1):
        value = torch.zeros(1)
        source = dist.recv(value)
        assert value.item() == source
        seen.add(source)
    assert seen == set(range(1, size))
else:
    dist.send(torch.full((1,), float(rank)), 0)
if rank == 0:
    dist.send(torch.ones(3), 1, tag=5)
    dist.send(torch.zeros(3), 1, tag=4)
elif rank == 1:
    a, b = torch.empty(3), torch.empty(3)
    dist.recv(b, 0, tag=4)
    dist.recv(a, 0, tag=5)
    assert a.sum() == 3 and b.sum() == 0

# --- objects --------------------------------------------------------------------------------------
got = [None] * size
dist.all_gather_object(got, {"rank": rank, "text": "x" * rank, "tensor": torch.ones(2) * rank})
assert [g["rank"] for g in got] == list(range(size)) and got[1]["tensor"].tolist() == [1, 1]
things = [1, "two", {3}] if rank == 0 else [None] * 3
dist.broadcast_object_list(things, src=0)
assert things == [1, "two", {3}]
out = [None]
dist.scatter_object_list(out, [f"for {r}" * r for r in range(size)] if rank == 0 else None, src=0)
assert out == [f"for {rank}" * rank]
gathered = [None] * size if rank == 1 else None
dist.gather_object((rank, "y" * rank), gathered, dst=1)
assert rank != 1 or gathered == [(r, "y" * r) for r in range(size)]
if rank == 0:
    dist.send_object_list([1, "a"], dst=1)
elif rank == 1:
    things = [None, None]
    assert dist.recv_object_list(things, src=0) == 0 and things == [1, "a"]

# --- groups ---------------------------------------------------------------------------------------
pair = dist.new_group([0, size - 1])
single = torch.full((1,), float(rank + 1))
if rank in (0, size - 1):
    dist.all_reduce(single, group=pair)
    assert single.item() == 1 + size and dist.get_world_size(pair) == 2
    dist.broadcast(single, src=size - 1, group=pair)
    assert dist.get_global_rank(pair, 1) == size - 1 and dist.get_group_rank(pair, size - 1) == 1
    assert dist.get_process_group_ranks(pair) == [0, size - 1]
    dist.destroy_process_group(pair)
else:
    assert pair == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(pair) == -1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert dist.all_reduce(single, group=pair) is None
    assert "does not belong" in str(caught[0].message)
mine, every = dist.new_subgroups(2)
total = torch.full((1,), float(rank))
dist.all_reduce(total, group=mine)
assert total.item() == 4 * (rank // 2) + 1 and len(every) == size // 2

# --- what must be refused, on all ranks alike -----------------------------------------------------
for call, error in [
    (lambda: dist.all_reduce([1, 2]), TypeError),
    (lambda: dist.all_reduce(torch.ones(2), Op.BAND), RuntimeError),
    (lambda: dist.all_reduce(torch.ones(2), "sum"), TypeError),
    (lambda: dist.reduce(torch.ones(2), 0, 7), TypeError),
    (lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), Op.MAX), ValueError),
    (lambda: dist.broadcast(torch.ones(2), src=99), RuntimeError),
    (lambda: dist.broadcast(torch.ones(2), group_src=size), RuntimeError),
    (lambda: dist.reduce(torch.ones(2), -1), RuntimeError),
    (lambda: dist.all_gather([torch.ones(2)], torch.ones(2)), RuntimeError),
    (lambda: dist.all_gather([torch.ones(3)] * size, torch.ones(2)), RuntimeError),
    (lambda: dist.all_gather_into_tensor(torch.ones(1), torch.ones(2)), RuntimeError),
    (lambda: dist.reduce_scatter_tensor(torch.ones(2), torch.ones(1)), RuntimeError),
    (lambda: dist.send(torch.ones(2), rank), ValueError),
    (lambda: dist.all_to_all_single(torch.ones(5), torch.ones(5)), RuntimeError),
    (lambda: dist.init_process_group("gloo"), ValueError),
    (lambda: dist.new_group([0, 0]), ValueError),
    (lambda: dist.all_reduce(torch.ones(2).to_sparse()), RuntimeError),
]:
    try:
        call()
    except error:
        continue
    raise AssertionError("nothing was raised")
dist.monitored_barrier()
dist.barrier()
counts = [None] * size
dist.all_gather_object(counts, dist.group.WORLD._operations)
assert len(set(counts)) == 1, counts  # ranks that wait for others compare their numbers
assert dist.get_backend() in ("gloo", "mpi") and dist.group.WORLD.size() == size
dist.destroy_process_group()
assert not dist.is_initialized()
print("done")
