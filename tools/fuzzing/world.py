"""The tensors of one fuzzed sequence, and what must hold of them after every step.

A step is a line of Python on the names of a `World`. After it every tensor lies inside its storage,
the margins around arrays from outside are untouched, memory has changed only where the step
may write, an error has changed nothing, and values are those of NumPy where a step has a model, or
those of the same op without sharing memory where it writes into given memory.
Read next: steps.py, which draws the lines, and tools/fuzz.py, which runs them.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import pickle
import re
import signal
from collections.abc import Iterable, Iterator
from ctypes import string_at
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint import _core
from adjoint.serialization import LoadError

__all__ = [
    "Step",
    "Violation",
    "World",
    "canonical",
    "checked",
    "guarded",
    "guards",
    "loaded",
    "put",
]

MAX_AXES = 64
MARGIN = 1024
PATTERN = bytes((i * 37 + 90) % 256 for i in range(MARGIN))
# Of larger storages the geometry is checked, not the content; of larger tensors no values.
CONTENT = 1 << 16
VALUES = 4096
# Elements that take long to visit, be it in a single place of memory: a step may be interrupted.
LONG = 1 << 26
# What a call may raise. Others (SystemError, KeyError, ...) are faults of the library.
ERRORS = (RuntimeError, ValueError, TypeError, IndexError, MemoryError, OverflowError, BufferError,
          NotImplementedError, LoadError)  # fmt: skip
STRANGE = (RecursionError,)  # derives from RuntimeError
NUMPY_TYPES = {
    getattr(ad, name): np.dtype(name)
    for name in ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8",
                 "bool", "complex64", "complex128", "uint16", "uint32", "uint64")
}  # fmt: skip


class Step(NamedTuple):
    """A line, the names it may write through (``grad``: the gradients of all), and its value.

    ``model`` is a NumPy expression of the same names for what the first written name, or else the
    assigned one, holds afterwards. ``same`` is a call of the library that writes nothing and has
    the value that the first written name holds afterwards.
    """

    line: str
    writes: tuple[str, ...] = ()
    model: str = ""
    same: str = ""


class Violation(Exception):
    """Something that must hold does not. ``kind`` is a short name for telling kinds apart."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Seen(NamedTuple):
    """A tensor as it was after a step: where it lies, and in which storage."""

    tensor: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    address: int  # of the first element, for an empty tensor too
    storage: tuple[int, int]  # address, bytes
    numel: int


# --- what lines call ------------------------------------------------------------------------------
_guards: list[tuple[int, int, Any]] = []  # address and bytes of the middle; the whole array


def guarded(dtype: str, count: int) -> np.ndarray[Any, Any]:
    """Small numbers in the middle of a larger array, whose margins are watched."""
    nbytes = count * np.dtype(dtype).itemsize
    whole = np.frombuffer(bytearray(PATTERN + bytes(nbytes) + PATTERN), np.uint8)
    middle = whole[MARGIN : MARGIN + nbytes].view(dtype)
    middle[...] = np.arange(count) % 7 - (2 if np.dtype(dtype).kind in "fic" else 0)
    _guards.append((whole.ctypes.data + MARGIN, nbytes, whole))
    return middle


def guards() -> list[bytes]:
    """The content of all guarded arrays, with their margins."""
    return [whole.tobytes() for *_, whole in _guards]


def loaded(obj: Any) -> Any:
    """What comes back when it is saved and loaded."""
    file = io.BytesIO()
    ad.save(obj, file)
    file.seek(0)
    return ad.load(file)


def put(array: Any, index: Any, value: Any) -> Any:
    """A copy in which ``array[index] = value`` was done."""
    made = array.copy()
    made[index] = value
    return made


NAMES = {"ad": ad, "np": np, "F": ad.nn.functional, "copy": copy, "gc": gc, "pickle": pickle,
         "guarded": guarded, "loaded": loaded, "put": put}  # fmt: skip


# --- the world ------------------------------------------------------------------------------------
class World:
    """Runs steps on named tensors and raises `Violation` when something does not hold."""

    patience = 0.0  # seconds until a step on very many elements is interrupted; 0: never

    def __init__(self, names: dict[str, Any] | None = None) -> None:
        self.names: dict[str, Any] = dict(NAMES) if names is None else names
        self.seen: dict[str, Seen] = {}
        self.content: dict[tuple[int, int], bytes] = {}
        self.grads: list[Seen] = []
        if names is None:
            _guards.clear()
            ad.manual_seed(0)
        else:
            self.look()

    def run(self, step: Step) -> BaseException | None:
        """Do a step and check everything; the error that it raised, if it is one of `ERRORS`."""
        error: BaseException | None = None
        long = self._is_long(step)
        try:
            try:
                if long and self.patience:
                    signal.setitimer(signal.ITIMER_REAL, self.patience)
                exec(step.line, self.names)
            finally:
                if long and self.patience:
                    signal.setitimer(signal.ITIMER_REAL, 0)
        except STRANGE as caught:
            raise Violation("strange error", f"{type(caught).__name__}: {caught}") from caught
        except ERRORS as caught:
            error = caught.with_traceback(None)
        except KeyboardInterrupt as caught:
            if not long:
                raise Violation("slow", "the step ran until it was interrupted") from None
            error = caught.with_traceback(None)
        except NameError as caught:
            if not re.match(r"name '[vabt]\d*' is not defined", str(caught)):
                raise Violation("strange error", f"NameError: {caught}") from caught
            error = caught.with_traceback(None)  # of a step that was dropped
        except Exception as caught:
            raise Violation("strange error", f"{type(caught).__name__}: {caught}") from caught
        self.check(step, error)
        return error

    def _is_long(self, step: Step) -> bool:
        return any(
            self.seen[name].numel > LONG
            for name in re.findall(r"\bv\d\b", step.line)
            if name in self.seen
        )

    def check(self, step: Step, error: BaseException | None) -> None:
        """Look at everything, compare with what was before the step, and remember it."""
        before = (self.seen, self.content, self.grads)
        self.look()
        self._check_frame(step, error, *before)
        if step.model and error is None:
            self._check_model(step, *before[:2])
        if step.same and error is None:
            self._check_same(step, *before[:2])

    # --- geometry ---------------------------------------------------------------------------------
    def look(self) -> None:
        """Check where every tensor lies, and note the content of memory."""
        self.seen, self.content, self.grads = {}, {}, []
        for name, value in self.names.items():
            if isinstance(value, ad.Tensor):
                self.seen[name] = self._place(name, value)
                try:
                    grad = value.grad if value.is_leaf else None
                except Exception as error:
                    raise Violation("strange error", f"{name}.is_leaf raises {error}") from error
                if grad is not None:
                    self.grads.append(self._place(f"{name}.grad", grad))
            elif type(value) is tuple:
                for i, part in enumerate(value[:8] + value[-8:]):
                    if isinstance(part, ad.Tensor):
                        self._place(f"part {i} of {name}", part)
            elif type(value) is np.ndarray and name[0] == "a" and value.flags.c_contiguous:
                self._note((value.ctypes.data, value.nbytes))
        for address, nbytes, _ in _guards:
            self._note((address, nbytes))
            if string_at(address - MARGIN, MARGIN) != PATTERN:
                raise Violation("write outside", "bytes before an array from outside were changed")
            if string_at(address + nbytes, MARGIN) != PATTERN:
                raise Violation("write outside", "bytes after an array from outside were changed")

    def _place(self, name: str, tensor: Any) -> Seen:
        shape, strides, dtype = tuple(tensor.shape), tensor.stride(), tensor.dtype
        storage = _core._storage(tensor)
        start, nbytes = storage
        offset, itemsize = tensor.storage_offset(), dtype.itemsize
        numel, low, high = 1, 0, 1
        for size, stride in zip(shape, strides, strict=True):
            numel *= size
            if stride < 0:
                low += (size - 1) * stride
            else:
                high += (size - 1) * stride
            if size < 0:
                raise Violation("bad size", f"{name} has shape {shape}")
        if len(shape) > MAX_AXES:
            raise Violation("too many axes", f"{name} has {len(shape)} axes")
        if numel != tensor.numel():
            raise Violation("bad count", f"{name} of shape {shape} has numel() {tensor.numel()}")
        if numel == 0:
            low, high = 0, 0
        if numel >= 2**63:
            raise Violation("bad count", f"{name} of shape {shape} has {numel} elements")
        if offset + low < 0 or (offset + high) * itemsize > nbytes:
            raise Violation(
                "view outside" if numel else "empty view outside",
                f"{name}: shape {shape}, strides {strides}, offset {offset} of {itemsize}-byte "
                f"elements do not lie in the {nbytes} bytes of the storage",
            )
        address = start + offset * itemsize
        if numel and tensor.data_ptr() != address:
            raise Violation("bad address", f"{name} is at {tensor.data_ptr()}, not at {address}")
        self._note(storage)
        return Seen(tensor, shape, strides, dtype, address, storage, numel)

    def _note(self, where: tuple[int, int]) -> None:
        if where not in self.content and 0 < where[1] <= CONTENT:
            self.content[where] = string_at(*where)

    # --- memory that changed ----------------------------------------------------------------------
    def _check_frame(
        self,
        step: Step,
        error: BaseException | None,
        seen: dict[str, Seen],
        content: dict[tuple[int, int], bytes],
        grads: list[Seen],
    ) -> None:
        changed = [
            where
            for where, old in content.items()
            if (new := self.content.get(where)) is not None and new != old
        ]
        if not changed:
            return
        kept = {id(s.tensor): s.storage for s in seen.values()}
        still = {s.storage for s in self.seen.values() if kept.get(id(s.tensor)) == s.storage}
        still.update(guard[:2] for guard in _guards)
        allowed: set[int] | None = None
        for where in changed:
            if where not in still:
                continue  # freed and used again
            if allowed is None:
                allowed = set()
                for name in step.writes:
                    if name == "grad":
                        through = grads + self.grads
                    else:
                        through = [w[name] for w in (seen, self.seen) if name in w]
                    for target in through:
                        allowed.update(_bytes_of(target))
            old, new = content[where], self.content[where]
            wrong = [i for i in range(where[1]) if old[i] != new[i] and i + where[0] not in allowed]
            if wrong:
                holders = [n for n, s in self.seen.items() if s.storage == where] or ["an array"]
                raise Violation(
                    "write beside",
                    f"the memory of {', '.join(holders)} changed at byte {wrong[0]} and "
                    f"{len(wrong) - 1} others, which the step does not write",
                )
            # Of `x[i] += 1` Python itself has done the addition when the assignment raises; a
            # division meets the zero on its way.
            met = " += " in step.line or "ZeroDivisionError" in str(error)
            met = met or isinstance(error, KeyboardInterrupt)
            if error is not None and not met:
                raise Violation(
                    "write before error", f"memory has changed although the step raised {error!r}"
                )

    # --- values -----------------------------------------------------------------------------------
    def _check_model(
        self, step: Step, seen: dict[str, Seen], content: dict[tuple[int, int], bytes]
    ) -> None:
        name = step.writes[0] if step.writes else step.line.partition(" = ")[0]
        target = self.seen.get(name)
        if target is None or target.numel > VALUES or target.dtype not in NUMPY_TYPES:
            return
        if step.writes and _repeats(target):
            return  # which write is the last is not stated
        arrays: dict[str, Any] = {"np": np, "put": put}
        for word in set(re.findall(r"\bv\d+\b", step.model)):
            array = _array(seen.get(word), content)
            if array is None:
                return
            arrays[word] = array
        try:
            with np.errstate(all="ignore"):
                expected = np.asarray(eval(step.model, arrays))
        except Exception:
            return  # NumPy refuses what the library allows
        actual = _array(target, self.content)
        if actual is None:
            return
        if expected.shape != actual.shape:
            raise Violation("wrong shape", f"{name}: {actual.shape}, NumPy has {expected.shape}")
        with np.errstate(all="ignore"):
            expected = expected.astype(actual.dtype)
        if not np.array_equal(actual, expected, equal_nan=actual.dtype.kind in "fc"):
            raise Violation(
                "wrong value",
                f"{name} is {_text(actual)}, NumPy's {step.model} is {_text(expected)}",
            )

    def _check_same(
        self, step: Step, seen: dict[str, Seen], content: dict[tuple[int, int], bytes]
    ) -> None:
        """Memory that operands and results share has not changed what is computed."""
        name = step.writes[0]
        target = self.seen.get(name)
        if target is None or target.numel > VALUES or _repeats(target):
            return
        names = dict(NAMES)
        for word in set(re.findall(r"\bv\d+\b", step.same)):
            if (twin := _twin(seen.get(word), content)) is None:
                return
            names[word] = twin
        actual = _twin(target, self.content)
        try:
            with ad.no_grad():
                expected = eval(step.same, names)
        except ERRORS:
            return  # the form that writes takes a dtype that this one does not
        if actual is None or not isinstance(expected, ad.Tensor):
            return
        if expected.shape != actual.shape:
            raise Violation("wrong shape", f"{name}: {actual.shape}, not {expected.shape}")
        expected = expected.to(actual.dtype)
        if _numbers(actual) != _numbers(expected) and not _alike(actual, expected):
            raise Violation(
                "wrong value under overlap",
                f"{name} is {_text(actual)}, {step.same} is {_text(expected)}",
            )


def _alike(a: Any, b: Any) -> bool:
    """Whether complex numbers differ by rounding: that of a product depends on its layout."""
    if not a.is_complex():
        return False
    got, want = a.numpy(), b.detach().numpy()
    return np.allclose(got, want, rtol=1e-5, atol=1e-5 * _largest(want), equal_nan=True)


def _largest(array: Any) -> float:
    sizes = np.abs(array[np.isfinite(array)])
    return float(sizes.max()) if sizes.size else 0.0


def _numbers(tensor: Any) -> bytes:
    """The bytes of the elements, of which all NaNs have the same."""
    if tensor.numel() == 0:
        return b""
    dense = tensor.contiguous().clone().reshape(-1)
    return canonical(dense.view(ad.uint8).numpy().tobytes(), tensor.dtype)


def canonical(data: bytes, dtype: Any) -> bytes:
    """The bytes with one NaN for all: which of two operands' a result has is not stated."""
    if dtype == ad.bfloat16:
        words = np.frombuffer(data, np.uint16).copy()
        words[(words & 0x7FFF) > 0x7F80] = 0x7FC0
        return words.tobytes()
    if dtype == ad.bool:  # memory that was never written may hold any byte
        return (np.frombuffer(data, np.uint8) != 0).tobytes()
    if not (dtype.is_floating_point or dtype.is_complex):
        return data
    width = dtype.itemsize // (2 if dtype.is_complex else 1)
    numbers = np.frombuffer(data, f"f{width}").copy()
    numbers[np.isnan(numbers)] = np.nan
    return numbers.tobytes()


def _text(array: Any) -> str:
    return " ".join(str(array.tolist())[:300].split())


def _array(seen: Seen | None, content: dict[tuple[int, int], bytes]) -> Any:
    """A tensor that was seen, as an array on the content of memory of that moment."""
    if (
        seen is None
        or seen.numel > VALUES
        or len(seen.shape) > 32
        or max(seen.shape, default=0) >= 2**31
    ):
        return None
    dtype = NUMPY_TYPES.get(seen.dtype)
    if dtype is None:
        return None
    if seen.numel == 0:
        return np.empty(seen.shape, dtype)
    memory = content.get(seen.storage)
    if memory is None:
        return None
    places = zip(seen.shape, seen.strides, strict=True)
    strides = tuple(stride * dtype.itemsize if size > 1 else 0 for size, stride in places)
    array = np.ndarray(seen.shape, dtype, memory, seen.address - seen.storage[0], strides)
    # Memory that was never written may hold bools that are neither 0 nor 1.
    return array.view(np.uint8) != 0 if dtype == np.bool_ else array


def _twin(seen: Seen | None, content: dict[tuple[int, int], bytes]) -> Any:
    """A tensor that was seen, on memory of its own with the content of that moment."""
    if seen is None or seen.numel > VALUES:
        return None
    if seen.numel == 0:
        return ad.empty(seen.shape, dtype=seen.dtype)
    if (memory := content.get(seen.storage)) is None:
        return None
    skipped = (seen.address - seen.storage[0]) % seen.dtype.itemsize
    count = (len(memory) - skipped) // seen.dtype.itemsize
    whole = ad.frombuffer(bytearray(memory), dtype=seen.dtype, count=count, offset=skipped)
    start = (seen.address - seen.storage[0]) // seen.dtype.itemsize
    return whole.as_strided(seen.shape, seen.strides, start)


def _repeats(seen: Seen) -> bool:
    """Whether elements share places."""
    return len(set(_bytes_of(seen))) < seen.numel * seen.dtype.itemsize


def _bytes_of(seen: Seen) -> Iterable[int]:
    """The addresses of all bytes of a tensor."""
    if seen.numel == 0 or seen.numel > CONTENT:
        return range(seen.storage[0], sum(seen.storage)) if seen.numel else ()
    itemsize = seen.dtype.itemsize
    places = np.array([seen.address])
    for size, stride in zip(seen.shape, seen.strides, strict=True):
        if size > 1 and stride:
            places = (places[:, None] + np.arange(size) * (stride * itemsize)).ravel()
    found: list[int] = (places[:, None] + np.arange(itemsize)).ravel().tolist()
    return found


@contextlib.contextmanager
def checked(
    names: dict[str, Any],
    writes: tuple[str, ...] = (),
    target: str = "",
    model: str = "",
    same: str = "",
) -> Iterator[None]:
    """Check a step that stands in a program of its own, as `World.run` would."""
    world, error = World(names), None
    try:
        yield
    except ERRORS as caught:
        error = caught
    world.check(Step(f"{target} = ", writes, model, same), error)
