"""Beside PyTorch: random streams of gradgradcheck, helpers of libraries, schedules of profiles."""

from __future__ import annotations

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("non_contiguous", [False, True])
def test_gradgradcheck_draws_what_pytorch_draws(non_contiguous: bool) -> None:
    after = []
    for library in (ad, torch):
        library.manual_seed(7)
        x = library.tensor([[0.5, 1.5], [2.0, 0.3]], dtype=library.float64, requires_grad=True)
        assert library.autograd.gradgradcheck(
            lambda x: (x.sin() * x, x.sum()),
            (x,),
            gen_non_contig_grad_outputs=non_contiguous,
        )
        after.append(library.rand(4).tolist())
    assert after[0] == after[1]


def test_bases_of_several_tensors() -> None:
    from torch.autograd.functional import _construct_standard_basis_for as theirs

    from adjoint.autograd.functional import _construct_standard_basis_for as ours

    sizes = (2, 1, 3)
    a = ours(tuple(ad.zeros(n, dtype=ad.float64) for n in sizes), sizes)
    b = theirs(tuple(torch.zeros(n, dtype=torch.float64) for n in sizes), sizes)
    assert [t.tolist() for t in a] == [t.tolist() for t in b]


@pytest.mark.parametrize(
    "plan",
    [
        {"wait": 1, "warmup": 1, "active": 2},
        {"wait": 2, "warmup": 1, "active": 1, "repeat": 2, "skip_first": 3},
        {"wait": 3, "warmup": 2, "active": 3, "repeat": 1, "skip_first": 1, "skip_first_wait": 1},
    ],
)
def test_schedules(plan: dict[str, int]) -> None:
    ours, theirs = ad.profiler.schedule(**plan), torch.profiler.schedule(**plan)
    assert [ours(i).name for i in range(30)] == [theirs(i).name for i in range(30)]


def test_versions_compare_alike() -> None:
    from torch.torch_version import TorchVersion as Theirs

    from adjoint.torch_version import TorchVersion as Ours

    for text in ("2.13.0", "2.13.0a0", "1.9.1+cpu", "2.0"):
        for other in ("2.13", "2.2", "1.10.0", "2.13.0a0", "3", (2, 13), (2, 0, 0), (1, 9, 1)):
            for compare in ("__lt__", "__le__", "__gt__", "__ge__"):
                ours = getattr(Ours(text), compare)(other)
                theirs = getattr(Theirs(text), compare)(other)
                assert ours == theirs, (text, compare, other)
