"""`_foreach_*`: ops on each tensor of a list."""

from __future__ import annotations

import pytest

import adjoint as ad

ARGUMENTS = [
    "a",
    "a, 2",
    "a, 0.5",
    "a, b",
    "a, [1, 2, 3]",
    "a, s",
    "a, b, alpha=2",
    "a, s, alpha=2",
    "a, scalar=2",
    "a, scalars=[1, 2, 3]",
    "a, b, b",
    "a, b, b, 2",
    "a, b, b, [1, 2, 3]",
    "a, b, b, v",
    "a, b, b, value=2",
    "a, b, 0.25",
    "a, b, weight=0.25",
    "a, b, [0.1, 0.2, 0.3]",
    "a, ord=1",
    "2.0, a",
]


def _call(lib, name: str, arguments: str):
    a = [lib.tensor([0.3, -0.7]), lib.tensor([[0.2], [0.9]]), lib.tensor(0.5)]
    b = [x + 0.125 for x in a]
    names = {"lib": lib, "a": a, "b": b, "s": lib.tensor(1.5), "v": lib.tensor([1.0, 2.0, 3.0])}
    try:
        result = eval(f"lib.{name}({arguments})", names)
    except (RuntimeError, TypeError):
        return None
    return type(result), [x.tolist() for x in result], [x.tolist() for x in a]


def test_every_function_gives_pytorchs_lists() -> None:
    torch = pytest.importorskip("torch")
    names = [name for name in dir(torch) if name.startswith("_foreach_") and "mm" not in name]
    assert len(names) > 80
    compared = 0
    for name in names:
        for arguments in ARGUMENTS:
            theirs = _call(torch, name, arguments)
            if theirs is None:
                continue
            ours = _call(ad, name, arguments)
            assert ours is not None and ours[0] is theirs[0], (name, arguments)
            for mine, other in zip(ours[1] + ours[2], theirs[1] + theirs[2], strict=True):
                same = ad.tensor(mine), ad.tensor(other)
                ad.testing.assert_close(*same, equal_nan=True, msg=f"{name}({arguments})")
            compared += 1
    assert compared > 200


def test_products_and_copies() -> None:
    pair = [ad.arange(4.0).reshape(2, 2), ad.ones(3, 3)]
    assert ad.equal(ad._foreach_mm(pair, pair)[0], pair[0] @ pair[0])
    copies = ad._foreach_clone(pair)
    ad._foreach_zero_(pair)
    ad._foreach_copy_(pair, copies)
    assert ad.equal(pair[0], copies[0]) and pair[0] is not copies[0]


def test_gradients_flow_through_lists() -> None:
    w = [ad.tensor([1.0, 2.0], requires_grad=True), ad.tensor(3.0, requires_grad=True)]
    sum(x.sum() for x in ad._foreach_mul(w, w)).backward()
    assert w[0].grad.tolist() == [2.0, 4.0] and w[1].grad.item() == 6.0


REFUSED = [
    (lambda: ad._foreach_add([], 1), RuntimeError, "at least one tensor"),
    (lambda: ad._foreach_add(3, 1), TypeError, "must be tuple of Tensors, not int"),
    (lambda: ad._foreach_add([1], 1), TypeError, "element 0 in argument 0, but got int"),
    (lambda: ad._foreach_add([ad.ones(1)], [1, 2]), RuntimeError, "elements as scalar list"),
    (lambda: ad._foreach_add([ad.ones(1)], [ad.ones(1)] * 2), RuntimeError, "got 1 and 2"),
    (lambda: ad._foreach_add([ad.ones(1)], ad.ones(2)), RuntimeError, "has 1 dimensions and 2"),
    (lambda: ad._foreach_abs([ad.ones(1)], 1), TypeError, "takes 1 positional arguments but 2"),
    (lambda: ad._foreach_mul([ad.ones(1)], odd=1), TypeError, "keyword argument 'odd'"),
    (
        lambda: ad._foreach_addcmul(*[[ad.ones(1)]] * 3, ad.ones(2)),
        RuntimeError,
        "scalars to match input of length 1 but got 2",
    ),
    (lambda: ad._foreach_nothing, AttributeError, "_foreach_nothing"),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[2])
def test_what_is_refused(row) -> None:
    call, error, text = row
    with pytest.raises(error, match=text):
        call()


def test_lists_are_grouped_by_dtype() -> None:
    from adjoint.utils._foreach_utils import _group_tensors_by_device_and_dtype as group

    x, y, z = ad.ones(1), ad.ones(1, dtype=ad.float64), ad.ones(2)
    found = group([[x, y, z], [x, y, z], []], with_indices=True)
    assert [places for _, places in found.values()] == [[0, 2], [1]]
    assert [key[1] for key in found] == [ad.float32, ad.float64]
    assert found[next(iter(found))][0][2] == []
