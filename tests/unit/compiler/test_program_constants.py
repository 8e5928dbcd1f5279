"""What no input goes into is computed when a program is made, and is the same in each run."""

from __future__ import annotations

from typing import Any

import adjoint as ad

from .test_program_fusion import check, names, uniform


def identity(n: int) -> ad.Tensor:
    t = ad.zeros(n, n)
    t.diagonal().fill_(1)
    return t


def test_an_identity_matrix_is_a_constant() -> None:
    program = check(lambda x: identity(4) * x + identity(4), lambda s: [uniform(s, 4, 4)])
    assert "fill" not in names(program)
    assert "zeros" not in names(program)


def test_several_changes_one_after_another() -> None:
    def f(x: ad.Tensor) -> Any:
        t = identity(5)
        t[1:].mul_(3)
        t[0].copy_(t[4])
        t.add_(ad.arange(5.0))
        return t @ x, ad.arange(3) * 2

    program = check(f, lambda s: [uniform(s, 5, 5)], runs=3)
    assert not {"mul", "copy", "add", "fill"} & set(names(program))


def test_what_is_read_between_changes_is_what_it_was_then() -> None:
    def f(x: ad.Tensor) -> Any:
        t = identity(4)
        first = t * x
        t.mul_(2)
        second = t * x
        t.diagonal().add_(x[0])
        return first, second, t * x

    check(f, lambda s: [uniform(s, 4, 4)], runs=3)


def test_what_an_input_goes_into_is_made_each_time() -> None:
    def f(x: ad.Tensor) -> Any:
        t = ad.zeros(3, 3)
        t.diagonal().copy_(x)
        other = ad.ones(3)
        other.add_(t[0])
        return t * 2 + other

    check(f, lambda s: [uniform(s, 3)], runs=3)


def test_results_are_new_in_each_run() -> None:
    f = ad.compile(lambda x: (identity(3), identity(3) + x, ad.arange(3.0)))
    for _ in range(3):
        eye, _, numbers = f(ad.ones(3, 3))
        assert eye.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        assert numbers.tolist() == [0, 1, 2]
        eye.add_(1)
        numbers.add_(1)


def test_large_ones_and_random_ones_are_not_kept() -> None:
    program = check(lambda x: identity(600) * x, lambda s: [uniform(s, 600)], runs=1)
    assert "fill" in names(program)
    f = ad.compile(lambda x: x + ad.zeros(3).normal_())
    a, b, c = (f(ad.zeros(3)).tolist() for _ in range(3))
    assert a != b != c


def test_what_follows_from_constants_alone_is_a_constant() -> None:
    def f(x: ad.Tensor) -> Any:
        t = (identity(5)[:, 1:] * 3 - 1).exp()
        ones = t.sum(1, keepdim=True)
        return t * x[:4] + ones, ones, identity(3) * 2

    program = check(f, lambda s: [uniform(s, 5)], runs=3)
    assert "exp" not in names(program)
    results = [ad.compile(f)(ad.ones(5)) for _ in range(3)]
    results[0][1].add_(1)
    results[0][2].add_(1)
    assert results[2][1].tolist() == results[1][1].tolist() != results[0][1].tolist()
    assert results[2][2].tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]


def test_gradients_of_constants_are_not_the_constants() -> None:
    def f(x: ad.Tensor) -> Any:
        (x * (identity(3) * 2)).sum().backward()
        return x.grad

    compiled, x = ad.compile(f), ad.ones(3, 3, requires_grad=True)
    for _ in range(3):
        x.grad = None
        grad = compiled(x)
        assert grad.tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
        grad.mul_(5)


def test_a_constant_of_one_number_is_that_number() -> None:
    def f(x: ad.Tensor) -> Any:
        t = ad.zeros(20, 30)
        t.add_(3)
        return x * (t * 2 + 1) - t, x + ad.zeros(30).neg()

    program = check(f, lambda s: [uniform(s, 20, 30)])
    assert [len(line[2]) for line in program.code() if line[0] == "fused"] == [1]
