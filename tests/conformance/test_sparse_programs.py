"""Random programs on sparse tensors, beside the same programs on PyTorch's dense ones.

Every step has a meaning on dense tensors, and entries are scattered into one at the start: values
and gradients (of entries, and of dense operands) must be the same. What sparse tensors tell of
their parts, and how they print, is compared with PyTorch's sparse tensors.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")

Pair = tuple[Any, Any]  # a sparse tensor here, a dense one there


class Program:
    """A state, the tensors it depends on, and steps drawn at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.rows, self.columns = self.random.randint(1, 5), self.random.randint(1, 5)
        self.leaves: list[Pair] = []
        self.steps: list[str] = []

    def number(self, shape: tuple[int, ...]) -> Pair:
        array = self.numpy.uniform(0.2, 0.9, size=shape)
        ours, theirs = ad.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
        self.leaves.append((ours, theirs))
        return ours, theirs

    def sparse(self, rows: int, columns: int) -> Pair:
        count = self.random.choice([0, 1, 3, 6, 9])
        at = np.stack([self.numpy.integers(0, n, size=count) for n in (rows, columns)])
        ours, theirs = self.number((count,))
        made = ad.sparse_coo_tensor(at, ours, (rows, columns))
        dense = torch.zeros(rows, columns, dtype=torch.float64)
        dense = dense.index_put(tuple(torch.tensor(at)), theirs, accumulate=True)
        layout = self.random.choice(["coo", "coo", "csr", "csc"])
        return (made if layout == "coo" else getattr(made, f"to_sparse_{layout}")()), dense

    def step(self, s: Any, d: Any) -> Pair:
        rows, columns = d.shape
        name = self.random.choice(STEPS)
        self.steps.append(name)
        if name == "number":
            return s * 1.5, d * 1.5
        if name == "divide":
            return s / 3, d / 3
        if name == "transpose":
            return s.t(), d.t()
        if name == "csr":
            return s.to_sparse_csr(), d
        if name == "csc":
            return s.to_sparse_csc(), d
        if name == "coo":
            return s.to_sparse_coo(), d
        if name == "coalesce":
            return s.to_sparse().coalesce(), d
        if name == "clone":
            return s.clone(), d.clone()
        if name in ("plus", "minus", "times"):
            t, e = self.sparse(rows, columns)
            if name == "plus":
                return s + t, d + e
            return (s - t, d - e) if name == "minus" else (s * t, d * e)
        if name == "itself":
            return s + s, d + d
        if name == "dense":
            x, y = self.number((columns,))
            return s * x, d * y
        if name == "product":
            t, e = self.sparse(columns, self.random.randint(1, 4))
            return s @ t, d @ e
        if name == "rows" and rows:
            chosen = self.numpy.integers(0, rows, size=self.random.randint(1, 4))
            return s.index_select(0, ad.tensor(chosen)), d.index_select(0, torch.tensor(chosen))
        if name == "stack":
            s = s.to_sparse_coo()
            return ad.cat([s, s], 0), torch.cat([d, d], 0)
        if name == "masked":
            mask, _ = self.sparse(rows, columns)
            mask = mask.to_sparse().coalesce().detach()
            chosen = ad.zeros(rows, columns, dtype=ad.float64)
            chosen[tuple(mask.indices())] = 1.0
            return s.sparse_mask(mask), d * torch.tensor(chosen.numpy())
        if name in FUNCTIONS:
            return getattr(s, name)(), getattr(d, name)()
        return s, d

    def loss(self, s: Any, d: Any) -> Pair:
        rows, columns = d.shape
        kind = self.random.choice(
            ["dense", "right", "left", "vector", "sum", "axis", "select", "add"]
        )
        self.steps.append(kind)
        if kind == "right":
            x, y = self.number((columns, self.random.choice([1, 2, 17])))
            return (s @ x).sin().sum(), (d @ y).sin().sum()
        if kind == "left":
            x, y = self.number((self.random.choice([1, 3]), rows))
            return (x @ s).sin().sum(), (y @ d).sin().sum()
        if kind == "vector":
            x, y = self.number((columns,))
            return ad.mv(s, x).exp().sum(), torch.mv(d, y).exp().sum()
        if kind == "sum":
            return s.sum() * 2, d.sum() * 2
        if kind == "axis":
            axis = self.random.randint(0, 1)
            return s.sum(axis).to_dense().cos().sum(), d.sum(axis).cos().sum()
        if kind == "select":
            i = self.random.randrange(rows)
            return s[i].to_dense().exp().sum(), d[i].exp().sum()
        if kind == "add":
            x, y = self.number((rows, columns))
            return (x + s).sin().sum(), (y + d).sin().sum()
        return s.to_dense().cos().sum(), d.cos().sum()

    def run(self) -> None:
        s, d = self.sparse(self.rows, self.columns)
        for _ in range(self.random.randint(0, 5)):
            s, d = self.step(s, d)
            np.testing.assert_allclose(
                s.detach().to_dense().numpy(), d.detach().numpy(), 1e-10, 1e-12
            )
        ours, theirs = self.loss(s, d)
        np.testing.assert_allclose(ours.item(), theirs.item(), 1e-10, 1e-12)
        if not theirs.requires_grad:
            return
        mine, other = zip(*self.leaves, strict=True)
        for a, b in zip(
            ad.autograd.grad(ours, mine, allow_unused=True),
            torch.autograd.grad(theirs, other, allow_unused=True),
            strict=True,
        ):
            if a is not None and b is not None:
                np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-9, 1e-11)
            else:
                assert (a is None or not a.any()) and (b is None or not b.any())


FUNCTIONS = ["neg", "sin", "tanh", "abs", "square", "expm1", "relu", "atan", "erf", "log1p"]
STEPS = [
    *FUNCTIONS,
    *("number", "divide", "transpose", "csr", "csc", "coo", "coalesce", "clone", "plus", "minus"),
    *("times", "itself", "dense", "product", "rows", "stack", "masked"),
]


@pytest.mark.parametrize("block", range(8))
def test_random_programs_agree_with_dense_ones(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        program = Program(seed)
        try:
            program.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {program.steps}") from error


INDICES, VALUES = [[0, 1, 1, 1], [2, 0, 2, 2]], [3.0, 4.0, 5.0, -1.0]


def made(lib: Any, dtype: str = "float64", size: tuple[int, ...] = (2, 3)) -> Any:
    return lib.sparse_coo_tensor(
        lib.tensor(INDICES), lib.tensor(VALUES, dtype=getattr(lib, dtype)), size
    )


SHOWN: dict[str, Callable[[Any], Any]] = {
    "uncoalesced": made,
    "float32": lambda lib: made(lib, "float32"),
    "int64": lambda lib: made(lib, "int64"),
    "coalesced": lambda lib: made(lib).coalesce(),
    "csr": lambda lib: made(lib).to_sparse_csr(),
    "csc": lambda lib: made(lib).to_sparse_csc(),
    "empty": lambda lib: lib.sparse_coo_tensor(size=(2, 3)),
    "hybrid": lambda lib: lib.sparse_coo_tensor(lib.tensor([[0, 2]]), lib.ones(2, 2), (3, 2)),
    "leaf": lambda lib: made(lib, "float32").coalesce().requires_grad_(),
    "wide": lambda lib: lib.sparse_coo_tensor(lib.arange(40).view(1, 40), lib.arange(40.0), (100,)),
    "from dense": lambda lib: lib.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse(),
    "transposed": lambda lib: made(lib).coalesce().t(),
    "sum": lambda lib: lib.sparse.sum(made(lib), 0),
    "softmax": lambda lib: lib.sparse.softmax(made(lib), 1),
    "log_softmax": lambda lib: lib.sparse.log_softmax(made(lib), 0),
    "row": lambda lib: made(lib)[1],
    "unsqueezed": lambda lib: made(lib).unsqueeze(0),
    "stacked": lambda lib: lib.stack([made(lib), made(lib)]).coalesce(),
    "product": lambda lib: lib.sparse.mm(made(lib), made(lib).t()).coalesce(),
    "zeros_like": lambda lib: lib.zeros_like(made(lib)),
    "half": lambda lib: made(lib).half(),
    "isnan": lambda lib: made(lib).isnan(),
    "power": lambda lib: made(lib) ** 2,
    "gradient": lambda lib: embedded(lib),
}


def embedded(lib: Any) -> Any:
    w = lib.ones(5, 2, requires_grad=True)
    at = lib.tensor([[1, 1], [3, 0]])
    lib.nn.functional.embedding(at, w, padding_idx=0, sparse=True).sum().backward()
    return w.grad


@pytest.mark.parametrize("name", SHOWN)
def test_parts_and_text_are_pytorchs(name: str) -> None:
    ours, theirs = SHOWN[name](ad), SHOWN[name](torch)
    assert repr(ours) == repr(theirs)
    assert (ours.sparse_dim(), ours.dense_dim()) == (theirs.sparse_dim(), theirs.dense_dim())
    if theirs.is_sparse:
        assert ours.is_coalesced() == theirs.is_coalesced()


def test_softmax_has_pytorchs_gradient() -> None:
    for name in ("softmax", "log_softmax"):
        for axis in (0, 1):
            grads = []
            for lib in (ad, torch):
                s = made(lib).coalesce().requires_grad_()
                out = getattr(lib.sparse, name)(s, axis)
                weight = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=lib.float64)
                (out.to_dense() * weight).sum().backward()
                grads.append(s.grad.to_dense().numpy())
            np.testing.assert_allclose(*grads, atol=1e-12)


@pytest.mark.parametrize("optimizer", ["SparseAdam", "SGD", "momentum", "Adagrad"])
def test_optimizers_take_sparse_gradients(optimizer: str) -> None:
    results = []
    for lib in (ad, torch):
        lib.manual_seed(0)
        table = lib.nn.Embedding(6, 3, sparse=True)
        options: dict[str, Any] = {"lr": 0.1}
        name = optimizer
        if optimizer == "momentum":
            name, options = "SGD", {"lr": 0.1, "momentum": 0.9}
        made = getattr(lib.optim, name)(table.parameters(), **options)
        for step in range(4):
            made.zero_grad()
            at = lib.tensor([[step, 1], [1, 5 - step]])
            (table(at).sin() * (step + 1)).sum().backward()
            made.step()
        results.append(table.weight.detach().numpy())
    np.testing.assert_allclose(*results, rtol=2e-5, atol=1e-6)
