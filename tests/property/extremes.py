"""Calls of every op with extreme numbers and tensors; run as a script by `test_extremes.py`.

Arguments follow from the types in the op's schema, drawn by a generator whose seed is the op's
name. A call may raise; it may not end the process, nor give a tensor that leaves its storage. The
call in hand is written to a file first, so that a crash can be told.
"""

from __future__ import annotations

import random
import sys
import warnings
from typing import IO, Any

import adjoint as ad
from adjoint import _core

NUMBERS = (2**62, 2**63 - 1, -(2**63), -1, 0, 1, 2, 2**40)
LISTS = (
    *([n] for n in NUMBERS),
    *([n, n] for n in NUMBERS),
    *([n, 2] for n in NUMBERS),
    [2**62] * 4 + [6],
    [1] * 70,
)
CHOICES: dict[str, tuple[Any, ...]] = {
    "int": NUMBERS,
    "int[]": LISTS,
    "int[*]": LISTS,
    "Scalar": (1, 2**62, -1, 1e18),
    "float": (1.0, 1e18, -1.0),
    "bool": (False, True),
    "dtype": (ad.float32, ad.int64),
    "str": ("mean", "sum", "ij"),
}
# Of length 2**62, sums do not even start: their partial results alone exceed every memory.
TENSORS: dict[str, Any] = {
    "matrix": lambda: ad.arange(12.0).reshape(3, 4),
    "vector": lambda: ad.arange(4.0),
    "indices": lambda: ad.tensor([0, 1, 1]),
    "mask": lambda: ad.tensor([True, False, True, False]),
    "expanded": lambda: ad.ones(1).expand(2**62),
    "expanded indices": lambda: ad.zeros(1, dtype=ad.int64).expand(2**62),
    "past the end": lambda: ad.ones(4)[::40][1:],
    "long and empty": lambda: ad.ones(1, 0).expand(2**61, 0),
    "64 axes": lambda: ad.ones((1,) * 64),
}
UNUSED = {"layout", "device", "pin_memory", "memory_format", "generator", "requires_grad"}
REFUSALS = (
    *(RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, OverflowError),
    *(AssertionError, ZeroDivisionError, MemoryError, AttributeError),
)


def draw(op: Any, kind: str, rng: random.Random) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of one call: the first tensor of this kind, others perhaps of another."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    left_out = False
    for a in op["arguments"]:
        if a["name"] in UNUSED:
            continue
        if a["default"] is not None and rng.random() < 0.4:
            left_out = True
            continue
        base = a["type"].rstrip("?")
        if base.startswith(("Tensor", "Operand")):
            other = kind if not args or rng.random() < 0.5 else rng.choice(list(TENSORS))
            value = TENSORS[other]()
            if base.startswith("Tensor["):
                value = [value] * rng.choice((2, 4))
        else:
            value = rng.choice(CHOICES.get(base, (None,)))
        if a["keyword_only"] or left_out:
            named[a["name"]] = value
        else:
            args.append(value)
    return args, named


def described(value: Any) -> str:
    """An argument as a line of the report has it."""
    return f"{list(value.shape)[:4]}" if isinstance(value, ad.Tensor) else str(value)[:60]


def leaves(result: Any) -> list[Any]:
    """The first tensors of a result."""
    parts = result if isinstance(result, tuple | list) else [result]
    return [t for t in parts[:3] if isinstance(t, ad.Tensor)]


def inside(t: Any) -> bool:
    """Whether a tensor lies within its storage."""
    size = _core._storage(t)[1]
    begin = t.storage_offset() * t.itemsize
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) * t.itemsize
    return bool(0 <= begin <= begin + (reach + t.itemsize if t.numel() else 0) <= size)


def run(op: Any, report: IO[str], trials: int) -> None:
    """Call an op in many ways."""
    call = getattr(ad, op["name"], None) or getattr(ad.Tensor, op["name"], None)
    if call is None:
        return
    rng = random.Random(op["full_name"])
    for kind in TENSORS:
        for _ in range(trials):
            args, named = draw(op, kind, rng)
            words = [described(v) for v in args]
            text = ", ".join(words + [f"{k}={described(v)}" for k, v in named.items()])
            report.seek(0)
            report.write(f"{op['full_name']}({text})\n")
            report.truncate()
            report.flush()
            try:
                result = call(*args, **named)
            except REFUSALS:
                continue
            assert all(inside(t) for t in leaves(result)), text


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    part, parts = int(sys.argv[1]), int(sys.argv[2])
    with open(sys.argv[3], "w") as report:
        for op in _core.op_table()[part::parts]:
            run(op, report, int(sys.argv[4]))
