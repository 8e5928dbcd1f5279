"""Sequences of unequal lengths: padded, packed, and as lists.

A packed sequence holds the rows of all sequences ordered by step: row k of step t belongs to the
k-th longest sequence, and `batch_sizes[t]` sequences have a step t.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence_(NamedTuple):
    """The fields of a packed sequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences of unequal lengths, ordered by step. Made by `pack_sequence` and its like."""

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        """Complete the fields: `data` may be a pair of data and batch sizes."""
        if batch_sizes is None:
            if not isinstance(data, list | tuple) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequence in another dtype; itself where nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._replace(data=data)

    def cpu(self) -> PackedSequence:
        """Itself: every tensor is in the memory of the CPU."""
        return self

    def double(self) -> PackedSequence:
        """The same in float64."""
        return self.to(ad.float64)

    def float(self) -> PackedSequence:
        """The same in float32."""
        return self.to(ad.float32)

    def half(self) -> PackedSequence:
        """The same in float16."""
        return self.to(ad.float16)

    def long(self) -> PackedSequence:
        """The same in int64."""
        return self.to(ad.int64)

    def int(self) -> PackedSequence:
        """The same in int32."""
        return self.to(ad.int32)

    def short(self) -> PackedSequence:
        """The same in int16."""
        return self.to(ad.int16)

    def char(self) -> PackedSequence:
        """The same in int8."""
        return self.to(ad.int8)

    def byte(self) -> PackedSequence:
        """The same in uint8."""
        return self.to(ad.uint8)

    @property
    def is_cuda(self) -> bool:
        """False."""
        return False

    def is_pinned(self) -> bool:
        """False: memory is not pinned here."""
        return False

    def pin_memory(self) -> PackedSequence:
        """Itself."""
        return self


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes one."""
    if permutation is None:
        return None
    places = ad.arange(0, permutation.numel())
    return ad.empty_like(permutation).scatter_(0, permutation, places)


def _checked_lengths(lengths: Any, batch: int) -> list[int]:
    found = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    if len(found) != batch:
        raise RuntimeError(
            "Expected `len(lengths)` to be equal to batch_size, "
            f"but got {len(found)} (batch_size={batch})"
        )
    if any(n <= 0 for n in found):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, "
            "but found an element in 'lengths' that is <= 0"
        )
    return found


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | list[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack sequences that are padded to one length.

    Parameters
    ----------
    input : Tensor
        (steps, batch, ...), or (batch, steps, ...) with `batch_first`.
    lengths : Tensor or list of int
        The length of each sequence; with `enforce_sorted` none longer than the one before it.
    """
    if batch_first:
        input = input.transpose(0, 1)
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    steps, batch = input.shape[:2]
    found = _checked_lengths(lengths, batch)
    sorted_indices = None
    if not enforce_sorted:
        order = sorted(range(batch), key=lambda k: -found[k])
        sorted_indices = ad.tensor(order)
        found = [found[k] for k in order]
        input = input.index_select(1, sorted_indices)
    elif any(a < b for a, b in pairwise(found)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if found[0] > steps:
        raise RuntimeError(
            f"a sequence of length {found[0]} does not fit into an input of {steps} steps"
        )
    sizes, k = [], batch
    for t in range(found[0]):
        while found[k - 1] <= t:
            k -= 1
        sizes.append(k)
    data = ad.cat([input[t, :size] for t, size in enumerate(sizes)])
    return PackedSequence(data, ad.tensor(sizes), sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded tensor of a packed sequence, and the lengths.

    Returns
    -------
    (Tensor, Tensor)
        (steps, batch, ...), or (batch, steps, ...) with `batch_first`; and the lengths.
    """
    sizes = sequence.batch_sizes.tolist()
    steps, batch = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, "
                f"but got total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    rows: list[Any] = []  # where each row goes in (steps, batch)
    for t, size in enumerate(sizes):
        rows.extend(range(t * batch, t * batch + size))
    data = sequence.data
    empty = data.new_full((steps * batch, *data.shape[1:]), padding_value)
    padded = empty.index_copy(0, ad.tensor(rows), data).view(steps, batch, *data.shape[1:])
    lengths = ad.tensor([sum(size > k for size in sizes) for k in range(batch)])
    if batch_first:
        padded = padded.transpose(0, 1)
    order = sequence.unsorted_indices
    if order is not None:
        return padded.index_select(0 if batch_first else 1, order), lengths[order]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | list[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors (steps, ...) of unequal lengths as one, padded with `padding_value`."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, "
            f"but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    given = list(sequences.unbind(0)) if isinstance(sequences, Tensor) else list(sequences)
    if not given:
        raise RuntimeError("received an empty list of sequences")
    longest, rest = max(len(s) for s in given), given[0].shape[1:]
    padded = []
    for one in given:
        missing = one.new_full((longest - len(one), *rest), padding_value)
        padded.append(ad.cat([one, missing] if padding_side == "right" else [missing, one]))
    return ad.stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The list of tensors that `pad_sequence` joined."""
    by_sequence = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [s[:n] for s, n in zip(by_sequence, lengths.tolist(), strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of tensors (steps, ...)."""
    lengths = [len(s) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list of tensors that a packed sequence holds."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
