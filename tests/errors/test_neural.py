"""Messages of padding, shuffles, distances, and the losses of margins and likelihoods."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn
from tests.errors.table import Row, check, refusals

F = nn.functional
x = ad.ones(2, 3)
image = ad.ones(1, 4, 2, 3)
t = ad.tensor([0, 1])
s = ad.tensor(1.0)


@refusals(
    (lambda: F.pad(x, (1, 1), mode=2), TypeError, "argument 'mode' (position 3) must be str"),  # type: ignore[arg-type]
    (lambda: F.pad(x, (1, 1), value="a"), TypeError, "argument 'value' (position 4) must be float"),  # type: ignore[arg-type]
    (lambda: F.pad(x, (1, 1), "odd"), NotImplementedError, "Unrecognised padding mode odd"),
    (lambda: F.pad(x, (1, 1), "reflect", 2.0), RuntimeError, 'mode "reflect" doesn\'t take in'),
    (
        lambda: F.pad(s, (), "reflect"),
        NotImplementedError,
        "Padding size 0 is not supported",
    ),
    (lambda: F.pad(x.bool(), (1, 1), "reflect"), NotImplementedError, '"reflect padding" not impl'),
    (lambda: F.pad(ad.ones(1, 0, 3), (1, 1), "reflect"), RuntimeError, "other non-zero dimensions"),
    (lambda: F.pad(x, (3, 0), "reflect"), RuntimeError, "padding (3, 0) at dimension 1 of size 3"),
    (lambda: F.pad(x, (0, 4), "circular"), RuntimeError, "wrapping around more than once: (0, 4)"),
    (lambda: F.pad(x, (-3, 0), "replicate"), RuntimeError, "or becomes 0"),
    (lambda: ad.constant_pad_nd(x, (1,)), RuntimeError, "Length of pad must be even"),
    (lambda: ad.constant_pad_nd(s, (1, 1)), RuntimeError, "Pad length is 2 while the input has 0"),
    (lambda: ad._core._pad_elements(x, (1, 1), "odd"), NotImplementedError, "padding mode odd"),
    (lambda: nn.CircularPad1d(1)(s), ValueError, "expected 2D or 3D input (got 0D input)"),
)
def test_padding(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.pixel_shuffle(x, 2), RuntimeError, "got input with 2 dimension(s)"),
    (lambda: ad.pixel_shuffle(image, 0), RuntimeError, "positive upscale_factor, but got 0"),
    (lambda: ad.pixel_shuffle(image, 3), RuntimeError, "input.size(-3)=4 is not divisible by the"),
    (lambda: ad.pixel_shuffle(image, 2**40), RuntimeError, "not divisible by the square of 109951"),
    (lambda: ad.pixel_unshuffle(x, 2), RuntimeError, "got input with 2 dimension(s)"),
    (lambda: ad.pixel_unshuffle(image, -1), RuntimeError, "downscale_factor, but got -1"),
    (lambda: ad.pixel_unshuffle(image, 2), RuntimeError, "input.size(-1)=3 is not divisible by 2"),
    (
        lambda: ad.channel_shuffle(x, 2),
        RuntimeError,
        "input with > 2 dims, but got input with",
    ),
    (lambda: ad.channel_shuffle(image, 0), RuntimeError, "must be positive. Value of groups:0"),
    (lambda: ad.channel_shuffle(image, 3), RuntimeError, "Got 4 channels and 3 groups."),
    (lambda: F.local_response_norm(x, 2), ValueError, "higher dimensionality input (got 2 dimens"),
    (lambda: F.local_response_norm(image, 0), RuntimeError, "greater than zero, but got 0"),
    (lambda: F.local_response_norm(image.bool(), 1), NotImplementedError, "not implemented for"),
    (lambda: nn.CrossMapLRN2d(2)(x), ValueError, "Expected input to be 4D, got 2D instead."),
    (lambda: nn.Softmax2d()(x), ValueError, "expected input to be 3D or 4D, got 2D instead"),
)
def test_planes(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.cosine_similarity(t, t, 0), RuntimeError, "yet common dtype is int64"),
    (lambda: ad.pdist(s), RuntimeError, "pdist only supports 2D tensors, got: 0D"),
    (lambda: ad.pdist(x.long()), RuntimeError, "floating-point dtypes, got int64"),
    (lambda: ad.pdist(x.half()), NotImplementedError, "\"pdist\" not implemented for 'float16'"),
    (lambda: ad.pdist(x, -1.0), RuntimeError, "non-negative p values, got -1"),
    (lambda: F.rrelu(x, 2.0, 1.0), RuntimeError, "Lower bound should be less than or equal"),
    (lambda: F.rrelu(x, 0.0, float("inf")), RuntimeError, "bounds must be finite numbers"),
)
def test_distances_and_slopes(row: Row) -> None:
    check(row)


@refusals(
    (lambda: F.cosine_embedding_loss(x, x, x), RuntimeError, "0D or 1D target tensor expected"),
    (lambda: F.cosine_embedding_loss(x, x, s), RuntimeError, "0D target tensor expects 1D input"),
    (lambda: F.margin_ranking_loss(x, x, t), RuntimeError, "same dimension but got sizes: input1:"),
    (lambda: F.multi_margin_loss(x, t, p=3), ValueError, "only p == 1 and p == 2 supported"),
    (lambda: nn.MultiMarginLoss(p=3), ValueError, "only p == 1 and p == 2 supported"),
    (lambda: nn.MultiMarginLoss(weight=x), ValueError, "None or one-dimensional, got 2D"),
    (lambda: F.multi_margin_loss(x, t, weight=x), ValueError, "one-dimensional, got shape [2, 3]"),
    (lambda: F.multi_margin_loss(x, t, weight=ad.ones(2)), RuntimeError, "expected 3 but got [2]"),
    (lambda: F.multi_margin_loss(x, t[:1]), RuntimeError, "target size [2], but got [1]"),
    (lambda: F.multi_margin_loss(x, t.int()), RuntimeError, "expected scalar type Long but found"),
    (lambda: F.multi_margin_loss(image, t), RuntimeError, "Expected non-empty vector or matrix"),
    (lambda: F.multi_margin_loss(x.half(), t), NotImplementedError, '"multi_margin_loss" not impl'),
    (lambda: F.multi_margin_loss(x, t, reduction="odd"), ValueError, "odd is not a valid value"),
    (lambda: F.multilabel_margin_loss(x, t), RuntimeError, "inconsistent target size: [2]"),
    (lambda: F.multilabel_margin_loss(x, x.long() * 3), RuntimeError, "is out of range: 3 where"),
    (lambda: F.triplet_margin_loss(x, x, x, -1.0), ValueError, "greater than 0, got -1.0"),
    (lambda: F.triplet_margin_loss(x, x, s), RuntimeError, "positive 2D, and negative 0D inputs"),
    (lambda: F.triplet_margin_loss(x, x, x, swap=1), TypeError, "'swap' (position 7) must be bool"),  # type: ignore[arg-type]
    (lambda: F.triplet_margin_with_distance_loss(x, x, s), RuntimeError, "negative 0D inputs"),
    (
        lambda: F.triplet_margin_with_distance_loss(x, x, x, margin=0),
        ValueError,
        "margin must be greater than 0, got 0",
    ),
    (lambda: nn.TripletMarginLoss(margin=0), ValueError, "TripletMarginLoss: expected margin to"),
    (lambda: nn.TripletMarginWithDistanceLoss(margin=0), ValueError, "WithDistanceLoss: expected"),
    (lambda: F.gaussian_nll_loss(x, x, -1.0), ValueError, "var has negative entry/entries"),
    (lambda: F.gaussian_nll_loss(x, x, -x), ValueError, "var has negative entry/entries"),
    (lambda: F.gaussian_nll_loss(x, x, image), ValueError, "[1, 4, 2, 3] for an input of [2, 3]"),
    (lambda: ad.margin_ranking_loss(x, x, x, 0.0, 3), ValueError, "0 (none), 1 (mean) or 2 (sum)"),
)
def test_losses_of_margins_and_likelihoods(row: Row) -> None:
    check(row)


sdpa = F.scaled_dot_product_attention
q = ad.ones(2, 4, 3)


@refusals(
    (lambda: sdpa(q, q, q.double()), RuntimeError, "and value.dtype: float64 instead."),
    (lambda: sdpa(q, q, s), RuntimeError, "and value.dim(): 0 instead."),
    (lambda: sdpa(q, q, q, dropout_p=2.0), RuntimeError, "between 0 and 1, but got 2"),
    (lambda: sdpa(q, q[..., 1:], q), RuntimeError, "must have one width, keys and values of"),
    (lambda: sdpa(q, q, q, x, is_causal=True), RuntimeError, "should not be set when is_causal"),
    (lambda: sdpa(q, q, q, x.long()), RuntimeError, "attn_mask.dtype: int64 and query.dtype"),
    (lambda: sdpa(q, q, q, ad.ones(3, 3)), RuntimeError, "The size of tensor a (3) must match"),
    (lambda: sdpa(q[0], q, q, ad.ones(1, 1, 4, 4)), RuntimeError, "does not broadcast to the sco"),
    (lambda: sdpa(q[0], q[0], q[0], enable_gqa=True), RuntimeError, "needs an axis of heads"),
    (lambda: sdpa(ad.ones(3, 4, 3), q, q, enable_gqa=True), RuntimeError, "got 3 for query, 2 for"),
)
def test_attention(row: Row) -> None:
    check(row)


def heads(query: ad.Tensor, *others: ad.Tensor, embed_dim: int = 4, **kwargs: Any) -> Any:
    key, value = others if len(others) == 2 else (query, query)
    module = nn.MultiheadAttention(embed_dim, 2, **kwargs.pop("module", {}))
    return module(query, key, value, **kwargs)


wide = ad.ones(3, 2, 4)
masked = {"need_weights": False, "is_causal": True}


@refusals(
    (lambda: nn.MultiheadAttention(0, 2), ValueError, "got embed_dim=0 and num_heads=2 instead"),
    (lambda: nn.MultiheadAttention(3, 2), AssertionError, "must be divisible by num_heads"),
    (lambda: heads(s), AssertionError, "batched 3D tensor but received 0-D query tensor"),
    (lambda: heads(wide, wide[0], wide), AssertionError, "to be 3-D but found 2-D and 3-D tensors"),
    (lambda: heads(wide, attn_mask=s), AssertionError, "2-D or 3-D but found 0-D tensor instead"),
    (lambda: heads(wide[0], attn_mask=ad.ones(3, 2, 2)), AssertionError, "to be (2, 2, 2) but got"),
    (lambda: heads(ad.ones(3, 2, 6)), AssertionError, "embedding dimension of 4, but got 6"),
    (lambda: heads(wide, wide, wide[:2]), AssertionError, "does not match value shape (2, 2, 4)"),
    (
        lambda: heads(wide, wide, wide[:2], module={"kdim": 4, "vdim": 4}),
        AssertionError,
        "does not match value shape",
    ),
    (
        lambda: heads(wide, ad.ones(3, 2, 5), ad.ones(2, 2, 5), module={"kdim": 5, "vdim": 5}),
        AssertionError,
        "key's sequence and batch dims (3, 2) do not match value's (2, 2)",
    ),
    (lambda: heads(wide, attn_mask=ad.ones(2, 3)), RuntimeError, "2D attn_mask is (2, 3), but sho"),
    (lambda: heads(wide, attn_mask=x.long()), AssertionError, "only bool and floating types of"),
    (lambda: heads(wide, **masked), RuntimeError, "Need attn_mask if specifying the is_causal hin"),
    (lambda: heads(wide, key_padding_mask=ad.ones(2, 2)), AssertionError, "shape of (2, 3), but"),
    (lambda: nn.Transformer(4, 2)(wide, wide[:, :1]), RuntimeError, "the batch number of src and"),
    (lambda: nn.Transformer(4, 2)(q, q), RuntimeError, "must be equal to d_model"),
    (
        lambda: nn.TransformerEncoderLayer(4, 2, activation="odd"),
        RuntimeError,
        "relu/gelu, not",
    ),
)
def test_attention_with_heads(row: Row) -> None:
    check(row)


def all_heads(**kwargs: Any) -> Any:
    w, none = ad.ones(4, 4), None
    given: dict[str, Any] = {"in_proj_weight": ad.ones(12, 4), "in_proj_bias": none} | {
        name: kwargs.pop(name, none) for name in ("bias_k", "bias_v")
    }
    given |= {"add_zero_attn": False, "dropout_p": 0.0, "out_proj_weight": w, "out_proj_bias": none}
    return F.multi_head_attention_forward(wide, wide, wide, 4, 2, **(given | kwargs))


one = ad.ones(1, 1, 4)
own = {"use_separate_proj_weight": True, "q_proj_weight": ad.ones(4, 4)}


@refusals(
    (lambda: all_heads(in_proj_weight=None), AssertionError, "is False but in_proj_weight is None"),
    (lambda: all_heads(**own), AssertionError, "is True but q_proj_weight, k_proj_weight or"),
    (
        lambda: all_heads(**own, k_proj_weight=ad.ones(4, 3), v_proj_weight=ad.ones(4, 4)),
        AssertionError,
        "expecting key weights shape of (4, 4), but got (4, 3)",
    ),
    (
        lambda: all_heads(
            **own,
            k_proj_weight=ad.ones(4, 4),
            v_proj_weight=ad.ones(4, 4),
            in_proj_bias=ad.ones(9),
        ),
        AssertionError,
        "expecting query bias shape of (4,), but got (3,)",
    ),
    (lambda: all_heads(bias_k=one), AssertionError, "must both be given, or neither"),
    (
        lambda: all_heads(bias_k=one, bias_v=one, static_k=ad.ones(4, 3, 2)),
        AssertionError,
        "bias cannot be added to static key or static value",
    ),
    (
        lambda: all_heads(static_k=one),
        AssertionError,
        "expecting static_k.size(0) of 4 and",
    ),
)
def test_the_function_behind_it(row: Row) -> None:
    check(row)
