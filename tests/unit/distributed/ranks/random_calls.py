"""Random collectives in random groups against NumPy: by the seed each rank knows what all have."""

import sys

import numpy as np
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(int(sys.argv[1]))
DTYPES = ["float32", "float64", "int64", "uint8", "float16", "bfloat16", "complex64", "bool"]
SHAPES = [(), (1,), (5,), (3, 4), (0,), (1000,), (20_000,), (257, 129)]
NUMPY = {"SUM": np.sum, "PRODUCT": np.prod, "MIN": np.min, "MAX": np.max}
GROUPS = [(None, list(range(size)))]
for _ in range(4):
    chosen = sorted(rng.choice(size, rng.integers(1, size + 1), replace=False).tolist())
    GROUPS.append((dist.new_group(chosen), chosen))


class Call:
    """One call: what is drawn is the same on all ranks."""

    def __init__(self):
        self.group, self.members = GROUPS[rng.integers(len(GROUPS))]
        self.dtype = DTYPES[rng.integers(len(DTYPES))]
        self.most = {"bool": 2, "float16": 3, "bfloat16": 3}.get(self.dtype, 4)  # exact products
        self.values = rng.integers(0, self.most, (size, *SHAPES[rng.integers(len(SHAPES))]))
        self.name = list(NUMPY)[rng.integers(2 if self.dtype == "complex64" else 4)]
        self.op = getattr(dist.ReduceOp, self.name)
        self.root = self.members[rng.integers(len(self.members))]
        self.kind = rng.integers(8)
        self.is_strided, self.is_async = rng.integers(2, size=2).astype(bool)

    def tensor(self, values):
        made = torch.from_numpy(np.array(values)).to(getattr(torch, self.dtype))
        return torch.stack([made, made], -1)[..., 0] if self.is_strided else made

    def reduced(self, values):
        total = NUMPY[self.name](values[self.members], axis=0)
        return (
            total > 0 if self.dtype == "bool" else total % 256 if self.dtype == "uint8" else total
        )

    def shifted(self, by):
        return (self.values + by) % self.most

    def make(self):
        """The call; returns what to wait for, and pairs of tensors and what they must hold."""
        values, members, root = self.values, self.members, self.root
        how = {"group": self.group, "async_op": self.is_async}
        place, own = members.index(rank), self.tensor(values[rank])
        parts = [torch.zeros_like(own) for _ in members]
        everyone = [(part, values[r]) for part, r in zip(parts, members, strict=True)]
        sent = [self.tensor(self.shifted(j)[rank]) for j in range(len(members))]
        if self.kind == 0:
            return dist.all_reduce(own, self.op, **how), [(own, self.reduced(values))]
        if self.kind == 1:
            return dist.broadcast(own, root, **how), [(own, values[root])]
        if self.kind == 2:
            there = self.reduced(values) if rank == root else values[rank]
            return dist.reduce(own, root, self.op, **how), [(own, there)]
        if self.kind == 3:
            return dist.all_gather(parts, own, **how), everyone
        if self.kind == 4:
            work = dist.reduce_scatter(own, sent, self.op, **how)
            return work, [(own, self.reduced(self.shifted(place)))]
        if self.kind == 5:
            came = [self.shifted(place)[r] for r in members]
            return dist.all_to_all(parts, sent, **how), zip(parts, came, strict=True)
        if self.kind == 6:
            work = dist.gather(own, parts if rank == root else None, root, **how)
            return work, everyone if rank == root else []
        given = [self.tensor(values[r]) for r in members] if rank == root else None
        return dist.scatter(own, given, root, **how), [(own, values[rank])]


def check(open_calls):
    for call, work, pairs in open_calls:
        if work is not None:
            work.wait()
        for tensor, expected in pairs:
            found = tensor.to(torch.complex128).numpy()
            assert np.array_equal(found, expected), (vars(call), found, expected)
    open_calls.clear()


open_calls = []
for _ in range(int(sys.argv[2])):
    call = Call()
    if rank in call.members:
        open_calls.append((call, *call.make()))
    if rng.integers(4) == 0:
        check(open_calls)
check(open_calls)
dist.barrier()
counts = [None] * dist.get_world_size()
dist.all_gather_object(counts, dist.group.WORLD._operations)
assert len(set(counts)) == 1, counts  # ranks that wait for others compare their numbers
dist.destroy_process_group()
print("done")
