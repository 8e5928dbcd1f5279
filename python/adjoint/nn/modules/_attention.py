"""Attention with several heads as a module; `activation.py` has it among its names."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.modules.linear import NonDynamicallyQuantizableLinear
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter


class MultiheadAttention(Module):
    """Attention between sequences, in `num_heads` parts of the features.

    Parameters
    ----------
    embed_dim, num_heads : int
        Features of queries and of the result, and into how many heads they are divided.
    dropout : float, default 0
        The share of weights that are dropped while training.
    bias : bool, default True
        Whether projections have a bias.
    add_bias_kv, add_zero_attn : bool, default False
        Whether one more key and value is trained, and whether one of zeros is there.
    kdim, vdim : int, optional
        Features of keys and values, where they are not `embed_dim`.
    batch_first : bool, default False
        Whether sequences are [N, L, E] and not [L, N, E].

    Notes
    -----
    Weights start as in PyTorch from the same seed. With ``need_weights=False`` the weights of the
    attention are never stored.
    """

    in_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    q_proj_weight: Tensor | None
    k_proj_weight: Tensor | None
    v_proj_weight: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def empty(*shape: int) -> Parameter:
            return Parameter(ad.empty(shape, device=device, dtype=dtype))

        same = self._qkv_same_embed_dim
        for name, width in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            own = None if same else empty(embed_dim, width)
            self.register_parameter(f"{name}_proj_weight", own)
        packed = empty(3 * embed_dim, embed_dim) if same else None
        self.register_parameter("in_proj_weight", packed)
        self.register_parameter("in_proj_bias", empty(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k = empty(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = empty(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (
            (self.in_proj_weight,)
            if self._qkv_same_embed_dim
            else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        ):
            assert weight is not None
            init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)  # of older versions of PyTorch
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` to `key`; returns the result and, if needed, the weights.

        Parameters
        ----------
        key_padding_mask : Tensor, optional
            [N, S]: keys that must not be seen (true), or numbers added to their scores.
        need_weights : bool, default True
            Whether the weights are returned.
        attn_mask : Tensor, optional
            [L, S] or [N * num_heads, L, S]: what must not be seen, or numbers added to the scores.
        average_attn_weights : bool, default True
            Whether the weights returned are the mean over the heads.
        is_causal : bool, default False
            A hint that `attn_mask` is the causal one.
        """
        swap = self.batch_first and query.dim() == 3
        if swap:
            # One tensor stays one, so that it is projected once.
            turned = {id(x): x.transpose(1, 0) for x in (query, key, value)}
            query, key, value = turned[id(query)], turned[id(key)], turned[id(value)]
        separate = not self._qkv_same_embed_dim
        result, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=separate,
            q_proj_weight=self.q_proj_weight if separate else None,
            k_proj_weight=self.k_proj_weight if separate else None,
            v_proj_weight=self.v_proj_weight if separate else None,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (result.transpose(1, 0) if swap else result), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one, and its kind: 0 for [L, S], 1 for [N, S], 2 for [N, H, L, S]."""
        merged, kind = key_padding_mask, None if key_padding_mask is None else 1
        if attn_mask is not None:
            samples, length = query.shape[:2]
            wide = attn_mask if attn_mask.dim() == 3 else attn_mask.unsqueeze(0)
            heads = -1 if attn_mask.dim() == 3 else 1
            wide = wide.view(-1 if heads == 1 else samples, heads, length, length)
            merged, kind = wide.expand(samples, self.num_heads, -1, -1), 2
            if key_padding_mask is not None:
                padding = key_padding_mask.view(samples, 1, 1, length)
                merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, kind
