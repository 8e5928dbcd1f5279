"""What MPI calls our dtypes and reductions.

Read next: src/bindings/interop/foreign_reductions.cpp, the reductions of types that MPI lacks.
"""

from __future__ import annotations

import ctypes
from functools import cache

import adjoint as ad
from adjoint import _core
from adjoint.distributed._library import address, mpi
from adjoint.distributed._reduce_op import ReduceOp

__all__ = ["datatype", "number", "operation"]

_NAMES = {
    ad.float32: "FLOAT",
    ad.float64: "DOUBLE",
    ad.float16: "UINT16_T",
    ad.bfloat16: "UINT16_T",
    ad.int8: "INT8_T",
    ad.int16: "INT16_T",
    ad.int32: "INT32_T",
    ad.int64: "INT64_T",
    ad.uint8: "UINT8_T",
    ad.uint16: "UINT16_T",
    ad.uint32: "UINT32_T",
    ad.uint64: "UINT64_T",
    ad.bool: "C_BOOL",
    ad.complex64: "C_FLOAT_COMPLEX",
    ad.complex128: "C_DOUBLE_COMPLEX",
}
_OPS = {
    ReduceOp.SUM: "SUM",
    ReduceOp.AVG: "SUM",
    ReduceOp.PRODUCT: "PROD",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}
_OPS_OF_BOOL = {
    ReduceOp.SUM: "LOR",
    ReduceOp.MAX: "LOR",
    ReduceOp.BOR: "LOR",
    ReduceOp.PRODUCT: "LAND",
    ReduceOp.MIN: "LAND",
    ReduceOp.BAND: "LAND",
    ReduceOp.BXOR: "LXOR",
}
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


@cache
def datatype(dtype: ad.dtype) -> int:
    """The handle of MPI's type for a dtype."""
    name = _NAMES.get(dtype)
    if name is None:
        raise TypeError(f"no MPI type for {dtype}: convert the tensor first")
    library = mpi()
    return int(library._handleof(getattr(library, name)))


@cache
def operation(op: ReduceOp, dtype: ad.dtype) -> int:
    """The handle of MPI's operation that reduces by `op` in this dtype."""
    if op not in _OPS:
        raise NotImplementedError(f"ReduceOp.{op.name} is not there; fix: scale, then ReduceOp.SUM")
    floating = dtype.is_floating_point or dtype.is_complex
    if op in _BITWISE and floating:
        raise RuntimeError(
            f"Cannot use ReduceOp.{op.name} with {dtype}: it is for integers and bools"
        )
    if dtype.is_complex and op in (ReduceOp.MIN, ReduceOp.MAX):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    if op is ReduceOp.AVG and not floating:
        raise ValueError(f"Cannot use ReduceOp.AVG with {dtype}: the mean is not an integer")
    if dtype in (ad.float16, ad.bfloat16):
        return _of_16_bits(dtype == ad.float16, "SUM" if op is ReduceOp.AVG else op.name)
    library = mpi()
    name = (_OPS_OF_BOOL if dtype == ad.bool else _OPS)[op]
    return int(library._handleof(getattr(library, name)))


def number(op: ReduceOp, dtype: ad.dtype) -> int:
    """A number for both, the same in all processes, which handles are not."""
    return op.value * len(_NAMES) + list(_NAMES).index(dtype)


def _of_16_bits(half: bool, name: str) -> int:
    function = _core._foreign_reduction(half, name)
    handle = ctypes.c_size_t(0)  # an int or a pointer, as the library has it
    commutes = 1
    code = _core._foreign_call(
        address("MPI_Op_create"), (function, commutes, ctypes.addressof(handle))
    )
    if code:
        raise RuntimeError(mpi().Get_error_string(code))
    return handle.value
