"""Attention and transformers beside torch's, on drawn shapes, masks and settings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]


def given(t: Any, value: Any) -> Any:
    """An array as a tensor with a gradient, where it can have one; the rest as it is."""
    if not isinstance(value, np.ndarray):
        return value
    made = t.from_numpy(value.copy())
    return made.requires_grad_() if made.is_floating_point() else made


def close(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    assert (ours is None) == (theirs is None), what
    if theirs is not None:
        want = theirs.detach().numpy()
        scale = max(1.0, float(np.max(np.abs(want), initial=0)))
        np.testing.assert_allclose(
            ours.detach().numpy(), want, tolerance, tolerance * scale, err_msg=what
        )


def mask_for(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    return (
        rng.random(shape) < 0.6 if rng.random() < 0.5 else rng.standard_normal(shape).astype(dtype)
    )


@pytest.mark.parametrize("seed", range(12))
def test_attention_of_any_shape_is_torchs(seed: int) -> None:
    """Several tiles of queries and keys, vectors that are not full, queries that see nothing."""
    rng = np.random.default_rng(seed)
    dtype = (np.float32, np.float64)[seed % 2]
    n, heads, group = (int(i) for i in rng.integers(1, 4, 3))
    queries, keys = (int(i) for i in rng.choice([1, 5, 17, 64, 65, 140], 2))
    width, out = (int(i) for i in rng.choice([1, 3, 8, 17, 32, 40], 2))
    kwargs: dict[str, Any] = {"enable_gqa": group > 1}
    if seed % 3 == 0:
        kwargs["is_causal"] = True
    elif seed % 3 == 1:
        lead = tuple(int(rng.choice([1, k])) for k in (n, heads * group, queries))
        kwargs["attn_mask"] = mask_for(rng, (*lead, keys), dtype)
    if rng.random() < 0.5:
        kwargs["scale"] = 0.3
    arrays = [
        rng.standard_normal(shape).astype(dtype)
        for shape in (
            (n, heads * group, queries, width),
            (n, heads, keys, width),
            (n, heads, keys, out),
        )
    ]
    cotangent = rng.standard_normal((n, heads * group, queries, out)).astype(dtype)
    found = []
    for t in (ad, torch):
        leaves = [given(t, a) for a in arrays]
        # Queries as projections give them: heads inside of the sequence.
        q = leaves[0].transpose(1, 2).contiguous().transpose(1, 2) if seed % 2 else leaves[0]
        call = {k: given(t, v) for k, v in kwargs.items()}
        mask = call.get("attn_mask")
        if mask is not None and mask.requires_grad:
            leaves += [mask] if seed % 4 else []
            mask.requires_grad_(bool(seed % 4))
        result = t.nn.functional.scaled_dot_product_attention(q, *leaves[1:3], **call)
        found.append([result, *t.autograd.grad(result, leaves, t.from_numpy(cotangent))])
    for i, (a, b) in enumerate(zip(*found, strict=True)):
        close(a, b, 1e-10 if dtype is np.float64 else 5e-4, f"result or gradient {i}")


def test_dropout_of_attention_draws_torchs_numbers() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    found = []
    for t in (ad, torch):
        t.manual_seed(3)
        q = t.from_numpy(x)
        found.append(t.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.4))
    close(*found, 1e-5, "value")


@pytest.mark.parametrize("seed", range(16))
def test_attention_with_heads_is_torchs(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def chance(p: float) -> bool:
        return bool(rng.random() < p)

    width, heads = int(rng.choice([4, 8])), int(rng.choice([1, 2, 4]))
    queries, keys, n = (int(i) for i in rng.integers(1, 6, 3))
    kind = ("self", "pair", "three")[seed % 3]
    keys = queries if kind == "self" else keys
    config: dict[str, Any] = {
        "bias": chance(0.7),
        "add_bias_kv": chance(0.3),
        "add_zero_attn": chance(0.3),
        "batch_first": chance(0.5),
        "dropout": float(rng.choice([0.0, 0.3])),
        **({"kdim": 5, "vdim": 6} if kind == "three" and chance(0.5) else {}),
    }
    batched = chance(0.7)

    def sequence(length: int, features: int) -> Array:
        shape = (n, length, features) if config["batch_first"] else (length, n, features)
        return rng.standard_normal(shape if batched else (length, features)).astype(np.float32)

    arrays: list[Array | None] = [
        sequence(queries, width),
        None if kind == "self" else sequence(keys, config.get("kdim", width)),
        sequence(keys, config.get("vdim", width)) if kind == "three" else None,
    ]
    call: dict[str, Any] = {"need_weights": chance(0.5), "average_attn_weights": chance(0.5)}
    if chance(0.4):
        hidden = rng.random((n, keys) if batched else (keys,)) < 0.3
        hidden[..., 0] = False
        call["key_padding_mask"] = hidden
    if chance(0.5):
        rows = (queries, keys) if chance(0.5) else ((n if batched else 1) * heads, queries, keys)
        hidden = rng.random(rows) < 0.3
        hidden[..., 0] = False
        call["attn_mask"] = hidden
    found = []
    for t in (ad, torch):
        t.manual_seed(seed)
        module = t.nn.MultiheadAttention(width, heads, **config)
        q, k, v = (given(t, a) for a in arrays)
        k = q if k is None else k
        v = k if v is None else v
        t.manual_seed(seed + 1)
        results = [
            r for r in module(q, k, v, **{k: given(t, a) for k, a in call.items()}) if r is not None
        ]
        leaves = list({id(x): x for x in (*module.parameters(), q, k, v)}.values())
        total = sum((r * r).sum() for r in results)
        found.append((module, [*results, *t.autograd.grad(total, leaves)]))
    (ours, mine), (theirs, other) = found
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for i, (a, b) in enumerate(zip(mine, other, strict=True)):
        close(a, b, 5e-4, f"result or gradient {i}")


@pytest.mark.parametrize("seed", range(8))
def test_transformers_are_torchs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    config: dict[str, Any] = {
        "dim_feedforward": 12,
        "dropout": float(rng.choice([0.0, 0.2])),
        "activation": str(rng.choice(["relu", "gelu"])),
        "batch_first": bool(seed & 1),
        "norm_first": bool(seed & 2),
        "bias": bool(rng.random() < 0.8),
    }
    shapes = [(2, n, 8) if config["batch_first"] else (n, 2, 8) for n in rng.integers(1, 5, 2)]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    lengths = [s[1 if config["batch_first"] else 0] for s in shapes]
    hidden = rng.random((2, lengths[0])) < 0.3
    hidden[:, 0] = False
    found = []
    for t in (ad, torch):
        t.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = t.nn.Transformer(8, 2, 2, 1, **config)
            source, target = (given(t, a) for a in arrays)
            masks = [t.nn.Transformer.generate_square_subsequent_mask(int(n)) for n in lengths]
            if seed & 4:
                module.eval()
            t.manual_seed(seed + 1)
            result = module(
                source, target, *masks, src_key_padding_mask=given(t, hidden),
                memory_key_padding_mask=given(t, hidden),
            )  # fmt: skip
        leaves = [*module.parameters(), source, target]
        grads = t.autograd.grad((result**3).sum(), leaves, allow_unused=True)
        found.append((module, [result, *grads]))
    (ours, mine), (theirs, other) = found
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for i, (a, b) in enumerate(zip(mine, other, strict=True)):
        close(a, b, 2e-3, f"result or gradient {i}")
