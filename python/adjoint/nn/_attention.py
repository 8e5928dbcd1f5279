"""Attention with several heads: projections, masks, and `scaled_dot_product_attention` between."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import adjoint as ad
from adjoint import Tensor
from adjoint._tensor.arguments import require_tensor
from adjoint.nn._dropout import dropout
from adjoint.nn._layers import linear


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: ad.dtype | None,
    other_name: str,
    target_type: ad.dtype,
    check_other: bool = True,
) -> Tensor | None:
    """A mask as numbers that are added to the scores: -inf for what must not be seen."""
    if mask is None:
        return None
    if mask.dtype != ad.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type "
            "for both instead.",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    return ad.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _mha_shape_check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether there is an axis for the batch; refuses what does not fit together."""
    axes = query.dim()
    if axes not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {axes}-D query tensor"
        )
    start = f"For {'batched' if axes == 3 else 'unbatched'} ({axes}-D) `query`, expected "
    if key.dim() != axes or value.dim() != axes:
        raise AssertionError(
            f"{start}`key` and `value` to be {axes}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != axes - 1:
        raise AssertionError(
            f"{start}`key_padding_mask` to be `None` or {axes - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{start}`attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead"
        )
    if axes == 2 and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}"
            )
    return axes == 3


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> list[Tensor]:
    """Queries, keys and values of one packed weight; one product for what is the same tensor."""
    width = q.size(-1)
    if k is v and q is k:
        return list(linear(q, w, b).unflatten(-1, (3, width)).unbind(-2))
    if k is v:
        w_q, w_kv = w.split([width, 2 * width])
        b_q, b_kv = (None, None) if b is None else b.split([width, 2 * width])
        pair = linear(k, w_kv, b_kv).unflatten(-1, (2, width)).unbind(-2)
        return [linear(q, w_q, b_q), *pair]
    weights = w.chunk(3)
    biases = (None, None, None) if b is None else b.chunk(3)
    return [linear(x, u, c) for x, u, c in zip((q, k, v), weights, biases, strict=True)]


def _in_projection(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, each by a weight of its own."""
    width = q.size(-1)
    for name, w, wanted in (
        ("query", w_q, (width, width)),
        ("key", w_k, (width, k.size(-1))),
        ("value", w_v, (width, v.size(-1))),
    ):
        if tuple(w.shape) != wanted:
            raise AssertionError(
                f"expecting {name} weights shape of {wanted}, but got {tuple(w.shape)}"
            )
    for name, b in (("query", b_q), ("key", b_k), ("value", b_v)):
        if b is not None and tuple(b.shape) != (width,):
            raise AssertionError(
                f"expecting {name} bias shape of {(width,)}, but got {tuple(b.shape)}"
            )
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


class _Masks:
    """The masks of a call, which grow with the keys."""

    def __init__(self, attn: Tensor | None, padding: Tensor | None) -> None:
        self.attn, self.padding = attn, padding

    def one_key_more(self) -> None:
        if self.attn is not None:
            self.attn = ad.constant_pad_nd(self.attn, (0, 1))
        if self.padding is not None:
            self.padding = ad.constant_pad_nd(self.padding, (0, 1))

    def together(self, samples: int, heads: int, keys: int) -> Tensor | None:
        """One mask [N or 1, H or 1, L or 1, S] for all scores."""
        mask = self.attn
        if mask is not None:
            shared = mask.size(0) == 1
            mask = mask.unsqueeze(0) if shared else mask.view(samples, heads, -1, keys)
        if self.padding is None:
            return mask
        if tuple(self.padding.shape) != (samples, keys):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(samples, keys)}, but got "
                f"{tuple(self.padding.shape)}"
            )
        padding = self.padding.view(samples, 1, 1, keys)
        return padding if mask is None else mask + padding


def _check_attn_mask(mask: Tensor | None, samples: int, queries: int, keys: int) -> Tensor | None:
    if mask is None:
        return None
    wanted = (queries, keys) if mask.dim() == 2 else (samples, queries, keys)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {tuple(mask.shape)}, but should be "
            f"{wanted}."
        )
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _heads(x: Tensor, heads: int) -> Tensor:
    """[L, N, E] as [N, H, L, E / H], without a copy."""
    return x.unflatten(-1, (heads, x.size(-1) // heads)).permute(1, 2, 0, 3)


def _static(given: Tensor, name: str, samples: int, heads: int, width: int) -> Tensor:
    if given.size(0) != samples * heads or given.size(2) != width:
        raise AssertionError(
            f"expecting {name}.size(0) of {samples * heads} and size(2) of {width}, but got "
            f"{given.size(0)} and {given.size(2)}"
        )
    return given.unflatten(0, (samples, heads))


def _projected(
    given: tuple[Tensor, Tensor, Tensor],
    weight: Tensor | None,
    bias: Tensor | None,
    separate: tuple[Tensor | None, Tensor | None, Tensor | None] | None,
) -> Sequence[Tensor]:
    """Queries, keys and values, by the packed weight or by `separate` ones."""
    if separate is None:
        if weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        return _in_projection_packed(*given, weight, bias)
    w_q, w_k, w_v = separate
    if w_q is None or w_k is None or w_v is None:
        raise AssertionError(
            "use_separate_proj_weight is True but q_proj_weight, k_proj_weight or "
            "v_proj_weight is None"
        )
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return _in_projection(*given, w_q, w_k, w_v, *biases)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, dropout_p: float) -> Tensor:
    """How much each query sees of each key: [N, H, L, S]."""
    scores = (q * math.sqrt(1.0 / q.size(-1))) @ k.transpose(-2, -1)
    seen = (scores if mask is None else scores + mask).softmax(-1)
    return dropout(seen, dropout_p) if dropout_p > 0 else seen


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention with several heads of [L, N, E] (or [L, E]), as `nn.MultiheadAttention` has it.

    Returns the result and, if `need_weights`, the weights [N, L, S] (their mean over the heads, or
    [N, H, L, S] with ``average_attn_weights=False``). Without them nothing of that size is stored.
    """
    for at, (name, given) in enumerate((("query", query), ("key", key), ("value", value)), start=1):
        require_tensor("multi_head_attention_forward", name, at, given)
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = key is value, query is key
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        value = key if same[0] else value  # one tensor stays one: it is projected once
        query = key if same[1] else query
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    queries, samples, width = query.shape
    _check_widths(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    masks, is_causal = _masks(
        query, attn_mask, key_padding_mask, need_weights=need_weights, is_causal=is_causal
    )
    q, k, v = _projected(
        (query, key, value),
        in_proj_weight,
        in_proj_bias,
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None,
    )
    masks.attn = _check_attn_mask(masks.attn, samples * num_heads, queries, k.size(0))
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or static value")
        k = ad.cat([k, bias_k.repeat(1, samples, 1)])
        v = ad.cat([v, bias_v.repeat(1, samples, 1)])
        masks.one_key_more()
    elif bias_k is not None or bias_v is not None:
        raise AssertionError("bias_k and bias_v must both be given, or neither")
    part = width // num_heads
    q = _heads(q, num_heads)
    k, v = (
        _heads(x, num_heads) if given is None else _static(given, name, samples, num_heads, part)
        for x, given, name in ((k, static_k, "static_k"), (v, static_v, "static_v"))
    )
    if add_zero_attn:
        none = ad.zeros(samples, num_heads, 1, part, dtype=k.dtype)
        k, v = ad.cat([k, none], 2), ad.cat([v, none], 2)
        masks.one_key_more()
    mask = masks.together(samples, num_heads, k.size(2))
    seen: Tensor | None = None
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        if is_causal and mask is None:
            raise AssertionError("is_causal not implemented for need_weights")
        seen = _weights(q, k, mask, dropout_p)
        joined = seen @ v
        seen = seen.mean(1) if average_attn_weights else seen
    else:
        joined = ad.nn.functional.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    result = linear(joined.permute(2, 0, 1, 3).flatten(2), out_proj_weight, out_proj_bias)
    if batched:
        return result, seen
    return result.squeeze(1), None if seen is None else seen.squeeze(0)


def _check_widths(
    query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, separate: bool
) -> None:
    if query.size(-1) != width:
        raise AssertionError(
            f"was expecting embedding dimension of {width}, but got {query.size(-1)}"
        )
    if width % heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {tuple(key.shape[:2])} do not match value's "
            f"{tuple(value.shape[:2])}"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(
            f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}"
        )


def _masks(
    query: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    need_weights: bool,
    is_causal: bool,
) -> tuple[_Masks, bool]:
    """Both masks as numbers, and whether the causal one needs not be looked at."""
    padding = _canonical_mask(
        key_padding_mask,
        "key_padding_mask",
        None if attn_mask is None else attn_mask.dtype,
        "attn_mask",
        query.dtype,
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. Use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding is None and not need_weights:
        return _Masks(None, None), True
    attn = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
    return _Masks(attn, padding), is_causal and padding is None
