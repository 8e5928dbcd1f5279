"""A loop inside a program has every backward program that a later call may need."""

import adjoint as ad


def _both(compiled, f, w, *inputs):
    x = ad.tensor(2.0, requires_grad=True)
    return [ad.autograd.grad(one(x, *inputs), (x, w)) for one in (compiled, f)]


def test_while_loops_of_other_lengths_are_differentiated_after_a_step_of_an_optimiser():
    w = ad.tensor(1.5, requires_grad=True)

    def f(x, n):
        return ad.while_loop(
            lambda x, i: i < n, lambda x, i: (x * w + 0.1, i + 1), (x, ad.tensor(0))
        )[0]

    fast = ad.compile(f)
    for n in (1, 5, 2, 3):
        ours, eager = _both(fast, f, w, ad.tensor(n))
        assert all(map(ad.equal, ours, eager))
        with ad.no_grad():
            w.add_(0.125)
    assert len(fast.programs) == 1


def test_the_other_branch_is_differentiated_after_a_step_of_an_optimiser():
    w = ad.tensor(1.5, requires_grad=True)

    def f(x, p):
        return ad.cond(p > 0, lambda x: x * w, lambda x: x / w + x.sin(), (x,))

    fast = ad.compile(f)
    for p in (1.0, 1.0, -1.0, 1.0):
        ours, eager = _both(fast, f, w, ad.tensor(p))
        assert all(map(ad.equal, ours, eager))
        with ad.no_grad():
            w.add_(0.125)
    assert len(fast.programs) == 1
