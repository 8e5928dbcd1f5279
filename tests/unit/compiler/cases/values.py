"""Values of tensors that Python gets to see, and memory that others see."""

from __future__ import annotations

import bisect
import copy
import math
import operator
import pickle
import statistics
from typing import Any

import numpy as np

import adjoint as ad

from .harness import Box, Compile, Table

table = Table("values")


def of_values(name: str, function: Any, dtype: Any = None) -> None:
    """A row: a function whose Python depends on the numbers in its argument."""

    def program(compile: Compile) -> Any:
        f = compile(function)
        given = [[1.0, 2.0], [1.0, 2.0], [3.0, 2.0], [3.0, 0.0], [0.0, 0.0]]
        return [f(ad.tensor(v, dtype=dtype)) for v in given]

    program.__name__ = name
    table.add(program)


of_values("bool", lambda x: x * 2 if x[0] else x * 3)
of_values("not", lambda x: x * 2 if not x[0] else x * 3)
of_values("and", lambda x: x * 2 if x[0] and x[1] else x * 3)
of_values("a comparison", lambda x: x * 2 if x[0] > x[1] else x * 3)
of_values("a chained comparison", lambda x: x * 2 if 0 < x[0] < 2 else x * 3)
of_values("max of two", lambda x: x * max(x[0], x[1]))
of_values("min of a list", lambda x: x * min([x[0], x[1]]))
of_values("max over it", lambda x: x * max(x))
of_values("sorted", lambda x: x * sorted([x[0], x[1]])[0])
of_values("any", lambda x: x * 2 if any(x) else x)
of_values("all", lambda x: x * 2 if all(t > 0 for t in x) else x)
of_values("in a list", lambda x: x * 2 if x[0] in [1.0, 5.0] else x)
of_values("in itself", lambda x: x * 2 if 3.0 in x else x)
of_values("float", lambda x: x * float(x[0]))
of_values("int", lambda x: x * int(x[0]))
of_values("complex", lambda x: x * complex(x[0]).real)
of_values("index", lambda x: x * [5.0, 6.0, 7.0, 8.0][x.long()[0]])
of_values("range", lambda x: sum(x for _ in range(x.long()[0])) + x)
of_values("operator.index", lambda x: x * operator.index(x.long()[0]))
of_values("a slice", lambda x: x[: x.long()[1]] * 2)
of_values("round", lambda x: x * round(x[0]))
of_values("round of float", lambda x: x * round(float(x[0]), 1))
of_values("math.sqrt", lambda x: x * math.sqrt(x[0]))
of_values("math.floor", lambda x: x * math.floor(x[0]))
of_values("format", lambda x: x * float(f"{x[0]:.2f}"))
of_values("str", lambda x: x * len(str(x[0] * 11)))
of_values("repr", lambda x: x * len(repr(x * 11)))
of_values("percent", lambda x: x * float("%f" % x[0]))  # noqa: UP031
of_values("join", lambda x: x * len(",".join(map(str, x.tolist()))))
of_values("item", lambda x: x * x[0].item())
of_values("tolist", lambda x: x * sum(x.tolist()))
of_values("numpy", lambda x: x * float(x.numpy()[0]))
of_values("np.asarray", lambda x: x * float(np.asarray(x)[0]))
of_values("np.max", lambda x: x * float(np.max(x.numpy())))
of_values("np.float64", lambda x: x * float(np.float64(x[0])))
of_values("array interface", lambda x: x * float(np.array(x, copy=True)[0]))
of_values("np.from_dlpack", lambda x: x * float(np.from_dlpack(x)[0]))
of_values("equal", lambda x: x * 2 if ad.equal(x, ad.tensor([1.0, 2.0])) else x)
of_values("allclose", lambda x: x * 2 if ad.allclose(x, ad.tensor([1.0, 2.0])) else x)
of_values("is_nonzero", lambda x: x * 2 if x[0].is_nonzero() else x)
of_values("any().item()", lambda x: x * 2 if (x > 2).any().item() else x)
of_values("an assertion", lambda x: asserted(x))
of_values("a loop to a tolerance", lambda x: halved(x))
of_values("nonzero", lambda x: x.nonzero().sum() * x)
of_values("unique", lambda x: ad.unique(x).sum() * x)
of_values("masked_select", lambda x: x.masked_select(x > 1).sum() * x)
of_values("a mask as an index", lambda x: x[x > 1].sum() * x)
of_values("argmax and an index", lambda x: x * x[x.argmax()])
of_values("argmax as a number", lambda x: x * [5.0, 6.0][int(x.argmax())])
of_values("the numbers as a key", lambda x: x * {1.0: 2.0}.get(float(x[0]), 3.0))
of_values("pickle", lambda x: x * len(pickle.dumps(x[0].item())))
of_values("statistics", lambda x: x * statistics.mean(x.tolist()))
of_values("bisect", lambda x: x * bisect.bisect([1.0, 2.5], x[0]))
of_values("unpacking", lambda x: unpacked(x))
of_values("a tensor of a tensor's number", lambda x: x * ad.tensor(float(x[0])))
of_values("a tensor of tensors", lambda x: x * ad.tensor([x[0], x[1]]))
of_values("as_tensor of numbers", lambda x: x * ad.as_tensor(x.tolist()))
of_values("full of a tensor", lambda x: x * ad.full((2,), x[0]))
of_values("a shape of a number", lambda x: x.sum() * ad.ones(int(x[0]) + 1))
of_values("copy", lambda x: copy.copy(x) * 2)
of_values("deepcopy", lambda x: copy.deepcopy(x) * 2)
of_values("repeat_interleave", lambda x: x.repeat_interleave(x.long()).sum() * x)
of_values("bincount", lambda x: ad.bincount(x.long()).sum() * x)
of_values("one_hot", lambda x: ad.nn.functional.one_hot(x.long()).sum() * x)
of_values(
    "split by numbers", lambda x: ad.arange(9.0).split([int(x[0]), 9 - int(x[0])])[0].sum() * x
)
of_values("memoryview", lambda x: x * memoryview(x.numpy())[0])
of_values("pow with a number", lambda x: x ** int(x[1]))
of_values("a number in a closure", lambda x: (lambda v: x * v)(x[0].item()))
of_values("match", lambda x: x * matched(x[0].item()))
of_values("cpu and numpy", lambda x: x * x.cpu().detach().numpy().sum())
of_values("a python sum", lambda x: sum(x) * x)
of_values("iteration with zip", lambda x: sum(a * b for a, b in zip(x, x, strict=True)) * x)
of_values("isnan", lambda x: x * 0 if x.isnan().any() else x)
of_values("isfinite all", lambda x: x if bool(x.isfinite().all()) else x * 0)
of_values("where instead", lambda x: ad.where(x > 1, x, x * 3))
of_values("is_same_size", lambda x: x * (2 if x.shape == (2,) else 3))


def asserted(x: Any) -> Any:
    assert x.sum() >= 0
    return x * 2


def halved(x: Any) -> Any:
    n = 0
    while x.abs().max() > 0.5:
        x, n = x / 2, n + 1
    return x * n


def unpacked(x: Any) -> Any:
    a, b = x
    return x * a + b


def matched(v: float) -> float:
    match v:
        case 1.0:
            return 2.0
        case 3.0:
            return 4.0
        case _:
            return 5.0


def of_state(name: str, make: Any, function: Any, change: Any) -> None:
    """A row: tensors in the state, whose memory changes in some way."""

    def program(compile: Compile) -> Any:
        s = make()
        f = compile(lambda x: function(s, x))
        found = [f(ad.ones(2)) for _ in range(3)]
        change(s)
        return found + [f(ad.ones(2)) for _ in range(2)]

    program.__name__ = name
    table.add(program)


def weight() -> Box:
    w = ad.arange(4.0)
    return Box(
        w=w, v=w[1:3], a=np.ones(2, "f4"), parts=[1.0, 2.0], n=2, ts=[ad.ones(2), ad.zeros(2)]
    )


of_state("a write through a base", weight, lambda s, x: x * s.v, lambda s: s.w.add_(5))
of_state("a write through a view", weight, lambda s, x: x * s.w[:2], lambda s: s.v.add_(5))
of_state("another view", weight, lambda s, x: x * s.v, lambda s: setattr(s, "v", s.w[2:]))
of_state("a resized tensor", weight, lambda s, x: x.sum() * s.w, lambda s: s.w.resize_(2))
of_state("a transposed tensor", weight, lambda s, x: x.sum() * s.w, lambda s: s.w.unsqueeze_(0))
of_state("set_", weight, lambda s, x: x.sum() * s.w, lambda s: s.w.set_(ad.ones(4)))
of_state("data", weight, lambda s, x: x.sum() * s.w, lambda s: setattr(s.w, "data", ad.ones(4)))
of_state(
    "numbers in a list",
    weight,
    lambda s, x: x * ad.tensor(s.parts),
    lambda s: s.parts.__setitem__(0, 9.0),
)
of_state(
    "a number in full", weight, lambda s, x: x * ad.full((2,), s.n), lambda s: setattr(s, "n", 3)
)
of_state("a length", weight, lambda s, x: x.sum() * ad.arange(s.n), lambda s: setattr(s, "n", 3))
of_state("tensors swapped", weight, lambda s, x: x * s.ts[0], lambda s: s.ts.reverse())
of_state(
    "a tensor in a tuple",
    lambda: Box(t=(ad.ones(2), 1.0)),
    lambda s, x: x * s.t[0],
    lambda s: setattr(s, "t", (ad.zeros(2), 1.0)),
)
of_state(
    "requires_grad",
    weight,
    lambda s, x: x * s.v * (1 + s.v.requires_grad),
    lambda s: setattr(s, "v", ad.ones(2, requires_grad=True)),
)
of_state("the version", weight, lambda s, x: x * s.w._version, lambda s: s.w.add_(1))
of_state(
    "whether it is a view",
    weight,
    lambda s, x: x * (1 + s.v._is_view()),
    lambda s: setattr(s, "v", ad.ones(2)),
)
of_state(
    "its base",
    weight,
    lambda s, x: x * (1 + (s.v._base is s.w)),
    lambda s: setattr(s, "w", ad.ones(4)),
)
of_state(
    "the offset", weight, lambda s, x: x * s.v.storage_offset(), lambda s: setattr(s, "v", s.w[2:])
)
of_state(
    "the size of its storage",
    weight,
    lambda s, x: x * s.v.untyped_storage().nbytes(),
    lambda s: setattr(s, "v", ad.ones(2)),
)
of_state(
    "the address",
    weight,
    lambda s, x: x * (s.v.data_ptr() - s.w.data_ptr()),
    lambda s: setattr(s, "v", s.w[2:]),
)
of_state(
    "whether it is shared",
    weight,
    lambda s, x: x * (1 + s.w.is_shared()),
    lambda s: s.w.share_memory_() if False else None,
)
of_state(
    "its gradient",
    lambda: Box(w=ad.ones(2, requires_grad=True)),
    lambda s, x: x * (1 + (s.w.grad is None)),
    lambda s: s.w.sum().backward(),
)
of_state(
    "its history",
    lambda: Box(w=ad.ones(2, requires_grad=True)),
    lambda s, x: x * (1 + (s.w.grad_fn is None)),
    lambda s: setattr(s, "w", s.w * 1),
)
of_state(
    "the name of its history",
    lambda: Box(w=ad.ones(2, requires_grad=True) * 2),
    lambda s, x: x * len(s.w.grad_fn.name()),
    lambda s: setattr(s, "w", s.w.sin()),
)
of_state(
    "its hooks",
    lambda: Box(w=ad.ones(2, requires_grad=True)),
    lambda s, x: x * (1 + bool(s.w._backward_hooks)),
    lambda s: s.w.register_hook(lambda g: g),
)
of_state(
    "retains_grad",
    lambda: Box(w=ad.ones(2, requires_grad=True) * 2),
    lambda s, x: x * (1 + s.w.retains_grad),
    lambda s: s.w.retain_grad(),
)
of_state(
    "output_nr",
    lambda: Box(w=(ad.ones(4, requires_grad=True) * 1).chunk(2)[0]),
    lambda s, x: x * (1 + s.w.output_nr),
    lambda s: setattr(s, "w", (ad.ones(4, requires_grad=True) * 1).chunk(2)[1]),
)
of_state(
    "is_contiguous",
    lambda: Box(w=ad.ones(2, 2)),
    lambda s, x: x * (1 + s.w.is_contiguous()),
    lambda s: setattr(s, "w", ad.ones(2, 2)[:, :1]),
)
of_state(
    "element_size",
    lambda: Box(w=ad.ones(2)),
    lambda s, x: x * s.w.element_size(),
    lambda s: setattr(s, "w", ad.ones(2).double()),
)
of_state(
    "a zero-dimensional array",
    lambda: np.array(2.0),
    lambda s, x: x * float(s),
    lambda s: s.fill(3.0),
)
of_state(
    "the shape of an array",
    lambda: np.ones((2, 3)),
    lambda s, x: x * s.shape[0],
    lambda s: setattr(s, "shape", (3, 2)),
)
of_state(
    "the dtype of an array",
    lambda: np.ones(2),
    lambda s, x: x * s.dtype.itemsize * len(s),
    lambda s: setattr(s, "dtype", "f4"),
)
of_state(
    "flags of an array",
    lambda: np.ones(2),
    lambda s, x: x * (1 + s.flags.writeable),
    lambda s: s.setflags(write=False),
)
of_state(
    "an array of arrays",
    lambda: [np.ones(2), np.ones(2)],
    lambda s, x: x * float(s[1][0]),
    lambda s: s[1].fill(3.0),
)
of_state(
    "an array in a dict",
    lambda: {"a": np.ones(2)},
    lambda s, x: x * float(s["a"].max()),
    lambda s: s["a"].fill(3.0),
)
of_state(
    "a record array",
    lambda: np.rec.array([(1.0, 2)], names="a,b"),
    lambda s, x: x * float(s.a[0]),
    lambda s: s.a.fill(3.0),
)
of_state(
    "a matrix",
    lambda: np.asmatrix(np.eye(2)),
    lambda s, x: x * float(s[0, 0]),
    lambda s: s.fill(3.0),
)
of_state(
    "a string array",
    lambda: np.array(["2.0"]),
    lambda s, x: x * float(s[0]),
    lambda s: s.__setitem__(0, "3.0"),
)
of_state(
    "a date",
    lambda: np.array(["2020-01-02"], "datetime64[D]"),
    lambda s, x: x * int(s.astype("int64")[0] % 7),
    lambda s: s.__setitem__(0, np.datetime64("2020-01-03")),
)
