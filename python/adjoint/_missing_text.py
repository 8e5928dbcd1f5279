"""What errors about missing names say: what is missing, what is nearest, and how to go on."""

from __future__ import annotations

import difflib
import sys
from functools import lru_cache
from typing import Any

from adjoint import _missing

_TENSOR = "Tensor"
# Where a name may be instead, in the order in which people look.
_ELSEWHERE = (
    "",
    "nn.functional",
    "nn",
    "linalg",
    "special",
    "fft",
    "func",
    "autograd",
    "autograd.functional",
    "optim",
    "utils.data",
    "sparse",
)

# How to go on where nobody said more.
ANYWAY = (
    "use what is nearest, write it with operations that are there, or keep this part on PyTorch; "
    "`adjoint scan PATH` lists all such names of a program"
)
_GPU = "adjoint computes on CPUs: leave the device out, or guard the call by cuda.is_available()"
_QUANTISED = "there are no quantised tensors: keep the model in float32 or bfloat16 (autocast)"
_GRAPHS = "adjoint.compile(f) records a function; adjoint.graph(y) shows what was computed"
# How to go on without what PyTorch has. A name serves for those below it, one with a star for those
# that begin so; the longest decides.
_WAYS = {
    "accelerator": _GPU,
    "ao": _QUANTISED,
    "autograd.profiler_legacy": "use profiler.profile",
    "complex32": "use complex64",
    "cuda": _GPU,
    "distributed": "DistributedDataParallel and the collective operations are there",
    "eig": "use linalg.eig",
    "export": f"export to another runtime is not there; {_GRAPHS}",
    "fx": f"there are no graphs to edit; {_GRAPHS}",
    "hub": "install the model's own package, or download its code and load_state_dict its weights",
    "library": "write the operation as an autograd.Function, or wrap foreign code by external()",
    "lstsq": "use linalg.lstsq",
    "lu_solve": "use linalg.lu_solve",
    "matrix_rank": "use linalg.matrix_rank",
    "mps": _GPU,
    "mtia": _GPU,
    "nested": "pad the sequences (nn.utils.rnn.pad_sequence) or pack them (pack_sequence)",
    "nn.intrinsic": _QUANTISED,
    "nn.qat": _QUANTISED,
    "nn.quantizable": _QUANTISED,
    "nn.quantized": _QUANTISED,
    "onnx": "export with PyTorch itself: save the state_dict here and load it there",
    "ops": "call the function by its public name: ops.aten.x is x",
    "package": "save the state_dict with save(), and keep the code in a package of Python's",
    "qint8": _QUANTISED,
    "quantization": _QUANTISED,
    "quantize*": _QUANTISED,
    "quint8": _QUANTISED,
    "solve": "use linalg.solve",
    "symeig": "use linalg.eigh",
    "xpu": _GPU,
    f"{_TENSOR}.chalf": "use cfloat()",
    f"{_TENSOR}.eig": "use linalg.eig(x)",
    f"{_TENSOR}.index": "use x[indices]",
    f"{_TENSOR}.ipu": _GPU,
    f"{_TENSOR}.lstsq": "use linalg.lstsq(x, b)",
    f"{_TENSOR}.mtia": _GPU,
    f"{_TENSOR}.q_*": _QUANTISED,
    f"{_TENSOR}.record_stream": _GPU,
    f"{_TENSOR}.reinforce": "use distributions: -log_prob(action) * reward",
    f"{_TENSOR}.resize*": "use reshape(), or resize_() in place",
    f"{_TENSOR}.solve": "use linalg.solve(a, x)",
    f"{_TENSOR}.symeig": "use linalg.eigh(x)",
    f"{_TENSOR}.to_sparse_b*": "use to_sparse_csr() or to_sparse_coo()",
    f"{_TENSOR}.volatile": "use no_grad()",
    f"{_TENSOR}.xpu": _GPU,
}


def shown(module: str) -> str:
    """The name of a module as the program calls it."""
    return "torch" + module.removeprefix("adjoint") if _missing.answers_as_torch else module


def no_attribute(owner: str, name: str) -> str:
    """What ``owner.name`` says; `owner` is a module of adjoint's, or "Tensor"."""
    if owner == _TENSOR:
        return f"'Tensor' object has no attribute '{name}'" + _rest(owner, name)
    return f"module '{shown(owner)}' has no attribute '{name}'" + _rest(owner, name)


def no_import(module: str, name: str) -> str:
    """What ``from module import name`` says."""
    return f"cannot import name '{name}' from '{shown(module)}'" + _rest(module, name)


def no_module(module: str) -> str:
    """What ``import module`` says, of a module below ``torch``."""
    owner, _, name = module.rpartition(".")
    while owner and owner not in sys.modules:
        owner, _, name = owner.rpartition(".")
    ours = "adjoint" + owner.removeprefix("torch")
    return f"No module named '{module}'" + _rest(ours, name)


def _rest(owner: str, name: str) -> str:
    return _told(owner, name, _missing.answers_as_torch)


@lru_cache(maxsize=1024)
def _told(owner: str, name: str, as_torch: bool) -> str:
    if name.startswith("__") or (name.startswith("_") and not as_torch):
        return ""
    whole = ".".join([*owner.split(".")[1:], name]) if owner != _TENSOR else f"{owner}.{name}"
    return f": {_what(whole)}{_nearest(owner, name)}\n  fix: {_way(whole)}"


def _what(whole: str) -> str:
    import adjoint

    if _missing.answers_as_torch:
        return (
            f"`torch` is adjoint {adjoint.__version__} in this process, and adjoint has no {whole}"
        )
    return f"adjoint has no {whole} (docs/limits.md lists what is not there)"


def _nearest(owner: str, name: str) -> str:
    root = shown("adjoint")
    found = _same_elsewhere(owner, name, root)
    holder, prefix = _holder(owner)
    there = [n for n in dir(holder) if not n.startswith("_") and n != name]
    near = difflib.get_close_matches(name, there, n=3, cutoff=0.75)
    found += [f"{prefix}.{n}" for n in near if _has(holder, n)]
    return f"\n  nearest: {', '.join(found[:4])}" if found else ""


def _same_elsewhere(owner: str, name: str, root: str) -> list[str]:
    found = []
    for place in _ELSEWHERE:
        address = f"adjoint.{place}".rstrip(".")
        if address != owner and _has(_module(address), name):
            found.append(f"{root}{address.removeprefix('adjoint')}.{name}")
    if owner != _TENSOR and _has(_holder(_TENSOR)[0], name) and not found:
        found.append(f"the method Tensor.{name}")
    return found[:2]


def _holder(owner: str) -> tuple[Any, str]:
    if owner == _TENSOR:
        from adjoint import Tensor

        return Tensor, _TENSOR
    return _module(owner), shown(owner)


def _module(address: str) -> Any:
    from importlib import import_module

    return import_module(address)


def _has(holder: Any, name: str) -> bool:
    try:
        return hasattr(holder, name)
    except Exception:  # a module that cannot be loaded is no place to send anybody to
        return False


def _fits(whole: str, start: str) -> bool:
    if start.endswith("*"):
        return whole.startswith(start[:-1])
    return whole == start or whole.startswith(start + ".")


def _way(whole: str) -> str:
    fits = [start for start in _WAYS if _fits(whole, start)]
    if fits:
        return _WAYS[max(fits, key=len)]
    return ANYWAY
