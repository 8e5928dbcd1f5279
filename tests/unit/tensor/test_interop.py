"""Arrays and objects of others: NumPy, DLPack, buffers, pickle, copies, weak references,
subclasses.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.spec import DTYPES, dtype_name

SHARED = [d for group in DTYPES.values() for d in group if d != "bfloat16"]


@pytest.mark.parametrize("dtype", SHARED)
def test_numpy_shares_memory_both_ways(dtype: str) -> None:
    array = np.zeros((2, 3), dtype)
    x = ad.from_numpy(array)
    assert dtype_name(x) == dtype
    array[0, 1] = 1
    assert x[0, 1].item() == 1
    x[1, 2] = 1
    assert array[1, 2] == 1
    back = x.numpy()
    assert np.shares_memory(back, array) and back.dtype == array.dtype


@pytest.mark.parametrize(
    "view", [np.s_[:], np.s_[::2], np.s_[:, 1:], np.s_[1, :, None], np.s_[0, 0, 0], np.s_[:0]]
)
def test_strides_survive_the_way_there_and_back(view: Any) -> None:
    array = np.arange(24.0).reshape(4, 3, 2).transpose(1, 2, 0)[view]
    array = np.asarray(array)
    x = ad.from_numpy(array)
    assert x.stride() == tuple(s // 8 for s in array.strides) or array.size == 0
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal((x + 1).numpy(), array + 1)


def test_memory_outlives_the_owner() -> None:
    x = ad.from_numpy(np.arange(1000.0))
    y = ad.arange(1000.0).numpy()
    gc.collect()
    junk = [np.ones(1000) for _ in range(20)]
    assert x.sum().item() == y.sum() == 499500.0 and len(junk) == 20


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_arrays_that_cannot_be_shared_are_refused_or_copied() -> None:
    with pytest.raises(ValueError, match=r"(?i)negative"):
        ad.from_numpy(np.arange(3.0)[::-1])
    with pytest.raises((TypeError, ValueError)):
        ad.from_numpy(np.array([object()]))
    assert ad.tensor(np.arange(3.0)[::-1].copy()).tolist() == [2.0, 1.0, 0.0]


def test_a_tensor_that_requires_grad_does_not_slip_into_numpy() -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        x.numpy()
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        np.asarray(x)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        np.sin(x)
    np.testing.assert_array_equal(x.detach().numpy(), [1.0, 1.0])
    assert x.numpy(force=True).tolist() == [1.0, 1.0]


def test_numpy_reads_tensors() -> None:
    x = ad.tensor([1.0, 4.0])
    np.testing.assert_array_equal(np.asarray(x), [1.0, 4.0])
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.shares_memory(np.asarray(x), x.numpy())
    np.testing.assert_array_equal(np.asarray(np.sqrt(x)), [1.0, 2.0])
    assert np.array([ad.tensor(1), ad.tensor(2)]).tolist() == [1, 2]


def test_mixed_arithmetic_with_arrays_and_numpy_numbers_gives_tensors() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64)
    assert isinstance(x * np.float64(2.0), ad.Tensor)
    assert (x * np.float64(2.0)).tolist() == [2.0, 4.0]
    assert (np.float64(2.0) * x).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("dtype", SHARED)
def test_dlpack_shares_memory_with_numpy(dtype: str) -> None:
    x = ad.ones(2, 3, dtype=getattr(ad, dtype))
    if dtype == "bool":
        y = ad.from_dlpack(x)
        assert y.dtype == x.dtype
        return
    array = np.from_dlpack(x.t())
    assert array.shape == (3, 2) and np.shares_memory(array, x.numpy())
    source = np.ones((2, 3), dtype)
    y = ad.from_dlpack(source)
    source[0, 0] = 0
    assert y[0, 0].item() == 0 and dtype_name(y) == dtype


def test_dlpack_with_torch() -> None:
    torch = pytest.importorskip("torch")
    x = ad.arange(6.0).reshape(2, 3).t()
    there = torch.from_dlpack(x)
    there[0, 1] = 9.0
    assert x[0, 1].item() == 9.0 and there.stride() == x.stride()
    back = ad.from_dlpack(torch.arange(3, dtype=torch.bfloat16))
    assert back.dtype == ad.bfloat16 and back.tolist() == [0.0, 1.0, 2.0]
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises((RuntimeError, BufferError)):
        torch.from_dlpack(ad.ones(2, requires_grad=True))


def test_a_dlpack_capsule_keeps_the_memory_alive() -> None:
    x = ad.arange(1000.0)
    array = np.from_dlpack(x)
    del x
    gc.collect()
    assert array.sum() == 499500.0
    capsule = ad.ones(3).__dlpack__()
    del capsule  # never consumed: freed once
    gc.collect()


def test_frombuffer_reads_bytes() -> None:
    data = bytearray(np.arange(4, dtype=np.int32).tobytes())
    x = ad.frombuffer(data, dtype=ad.int32, offset=4)
    assert x.tolist() == [1, 2, 3]
    data[4] = 7
    assert x[0].item() == 7
    with pytest.raises(ValueError):
        ad.frombuffer(data, dtype=ad.int32, offset=99)


def test_the_buffer_protocol() -> None:
    x = ad.arange(6, dtype=ad.int32).reshape(2, 3)
    view = memoryview(x)
    assert view.shape == (2, 3) and view.tolist() == [[0, 1, 2], [3, 4, 5]]
    view[1, 2] = 50
    assert x[1, 2].item() == 50


@pytest.mark.parametrize("dtype", [*SHARED, "bfloat16"])
def test_pickle_keeps_values_dtype_and_requires_grad(dtype: str) -> None:
    x = ad.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(ad, dtype)).t()
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == x.dtype and y.tolist() == x.tolist() and y.data_ptr() != x.data_ptr()
    if x.is_floating_point():
        leaf = pickle.loads(pickle.dumps(x.clone().requires_grad_()))
        assert leaf.requires_grad and leaf.is_leaf


def test_copies() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    x.grad = ad.ones(2)
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shallow.data_ptr() == x.data_ptr() and deep.data_ptr() != x.data_ptr()
    assert deep.requires_grad and deep.is_leaf and deep.grad.tolist() == [1.0, 1.0]
    assert deep.grad.data_ptr() != x.grad.data_ptr()
    with pytest.raises(RuntimeError, match=r"(?i)graph leaves|leaf"):
        copy.deepcopy(x * 2)


def test_a_deepcopy_keeps_what_is_shared_shared() -> None:
    x = ad.zeros(3)
    a, b = copy.deepcopy([x, x[1:]])
    a[1] = 5.0
    assert b[0].item() == 5.0
    c, d = copy.deepcopy([x, x])
    assert c is d


def test_weak_references_and_attributes() -> None:
    x = ad.ones(2)
    x.note = "kept"
    gone: list[int] = []
    reference = weakref.ref(x, lambda _: gone.append(1))
    assert reference() is x
    del x
    gc.collect()
    assert reference() is None and gone == [1]


def test_a_tensor_with_attributes_lives_in_the_graph() -> None:
    """The object that comes out of `variable` is the one that went in, attributes and all."""
    x = ad.ones(2, requires_grad=True)
    x.note = ["mine"]
    y = x * 2
    assert y.grad_fn.next_functions[0][0].variable is x
    assert y.grad_fn.next_functions[0][0].variable.note == ["mine"]


def test_hash_is_by_identity_and_equality_by_element() -> None:
    x, y = ad.ones(2), ad.ones(2)
    assert hash(x) == hash(x) and len({x, y}) == 2
    assert (x == y).tolist() == [True, True]
    assert {x: 1}[x] == 1


class Named(ad.Tensor):  # type: ignore[misc]
    """A subclass with an attribute and a method."""

    unit = "m"

    def doubled(self) -> Any:
        return self * 2


def test_subclasses_keep_their_attributes() -> None:
    x = ad.ones(3).as_subclass(Named)
    assert isinstance(x, Named) and isinstance(x, ad.Tensor)
    x.unit = "s"
    assert x.unit == "s" and x.doubled().tolist() == [2.0, 2.0, 2.0]
    p = ad.nn.Parameter(ad.ones(2))
    assert isinstance(p, ad.Tensor) and p.requires_grad and p.is_leaf
    y = pickle.loads(pickle.dumps(x))
    assert type(y) is Named and y.unit == "s"


def test_results_of_a_subclass_have_its_type() -> None:
    x = ad.ones(3).as_subclass(Named)
    for result in (x + 1, 1 - x, -x, x.sin(), ad.exp(x), x.sum(), x[0], x < 2, ad.cat([x, x])):
        assert type(result) is Named
    assert all(type(part) is Named for part in x.max(dim=0))
    before = x
    x += 1
    assert x is before
    assert type(ad.nn.Parameter(ad.ones(2)) * 2) is ad.Tensor


def test_a_leaf_of_a_subclass_gets_a_gradient() -> None:
    x = ad.Tensor._make_subclass(Named, ad.ones(3), True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    y = ad.ones(3, requires_grad=True)
    (y.as_subclass(Named) * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0, 3.0]


def test_torch_function_is_asked_first() -> None:
    calls = []

    class Logged(ad.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = ad.ones(2).as_subclass(Logged)
    y = ad.exp(3 - (x + 1) * 2)
    assert calls == ["add", "mul", "__rsub__", "exp"] and type(y) is Logged


def test_constructors_of_subclasses_run() -> None:
    class Unit(ad.Tensor):  # type: ignore[misc, name-defined]
        def __new__(cls, data: Any, unit: str) -> Any:
            return super().__new__(cls, data)

        def __init__(self, data: Any, unit: str) -> None:
            self.unit = unit

    x = Unit([1.0, 2.0], "m")
    assert type(x) is Unit and x.unit == "m" and x.tolist() == [1.0, 2.0]
    assert copy.deepcopy(x).unit == "m"


def test_memory_that_is_read_only_stays_so() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    x = ad.from_numpy(array)
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(1)
    assert not x.numpy().flags.writeable and (x + 1).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="read-only"):
        ad.frombuffer(b"abcd", dtype=ad.uint8).zero_()


def test_an_exported_buffer_survives_a_change_of_data() -> None:
    x = ad.zeros(1000)
    array = x.numpy()
    x.data = ad.ones(3)
    junk = [ad.ones(1000) for _ in range(20)]
    assert array.sum() == 0 and len(junk) == 20
    with pytest.raises(BufferError, match="detach"):
        memoryview(ad.ones(2, requires_grad=True))


def test_a_dlpack_capsule_is_used_once() -> None:
    for version in (None, (1, 0)):
        capsule = ad.arange(3).__dlpack__(max_version=version)
        assert ad.from_dlpack(capsule).tolist() == [0, 1, 2]
        with pytest.raises(RuntimeError, match="only once"):
            ad.from_dlpack(capsule)


STRUCTURE = {
    "w": ad.ones(2, 3).t(),
    "list": [1, 2.5, None, "text", True, (1, 2j), b"raw"],
    3: float("inf"),
    "big": 2**70,
    "half": ad.ones(2, dtype=ad.bfloat16),
    "empty": ad.ones(0, 2),
    "leaf": ad.ones(2, requires_grad=True),
}


def test_what_is_saved_is_loaded(tmp_path: Any) -> None:
    ad.save(STRUCTURE, tmp_path / "file")
    back = ad.load(tmp_path / "file")
    assert list(back) == list(STRUCTURE) and back["list"] == STRUCTURE["list"]
    assert back[3] == float("inf") and back["big"] == 2**70
    assert back["w"].tolist() == ad.ones(3, 2).tolist() and back["half"].dtype == ad.bfloat16
    assert tuple(back["empty"].shape) == (0, 2) and back["leaf"].requires_grad
    model, other = ad.nn.Linear(2, 2), ad.nn.Linear(2, 2)
    ad.save(model.state_dict(), tmp_path / "model")
    other.load_state_dict(ad.load(tmp_path / "model"))
    assert other.weight.tolist() == model.weight.tolist()


def test_only_data_is_saved_and_loaded() -> None:
    with pytest.raises((AttributeError, pickle.PicklingError), match=r"\['a'\]\[1\]"):
        ad.save({"a": [1, lambda: 0]}, io.BytesIO())
    for junk in (b"", b"abc", b"\xff" * 100, b"\x08" + bytes(7) + b"notjson!", b"PK\x03\x04junk"):
        with pytest.raises(RuntimeError):
            ad.load(io.BytesIO(junk))


def test_safetensors_reads_what_save_wrote(tmp_path: Any) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    ad.save({"x": ad.arange(6.0).reshape(2, 3)}, tmp_path / "file.safetensors")
    (array,) = safetensors.load_file(tmp_path / "file.safetensors").values()
    assert array.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_files_of_torch_are_read_without_running_them() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    file = io.BytesIO()
    torch.save({"m": model.state_dict(), "x": torch.arange(6).reshape(2, 3).t()}, file)
    file.seek(0)
    back = ad.load(file)
    assert back["m"]["weight"].tolist() == model.weight.tolist()
    assert back["x"].tolist() == [[0, 3], [1, 4], [2, 5]]
    whole = io.BytesIO()
    torch.save(model, whole)
    whole.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="state_dict"):
        ad.load(whole)


def test_numpy_needs_no_detach_where_nothing_is_recorded():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    with ad.no_grad():
        assert x.numpy().tolist() == [1.0, 2.0]


def test_new_makes_a_tensor_of_the_same_dtype():
    x = ad.tensor([1, 2], dtype=ad.int16)
    assert x.new(2, 3).shape == (2, 3)
    assert x.new([4, 5]).dtype == ad.int16
    assert not x.is_conj()
    assert not ad.is_neg(x)


def test_data_and_requires_grad_cannot_be_deleted():
    x = ad.ones(2)
    with pytest.raises(RuntimeError, match="Deleting tensor data"):
        del x.data
    with pytest.raises(RuntimeError, match="requires_grad"):
        del x.requires_grad


def test_set_makes_another_leaf_to_graphs_to_come():
    x = ad.ones(2, requires_grad=True)
    edge = ad.autograd.graph.get_gradient_edge(x)
    old = (x * 2).sum()
    with ad.no_grad():
        x.set_(ad.zeros(2))
    assert ad.autograd.graph.get_gradient_edge(x).node is not edge.node
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        ad.autograd.grad(old, x, retain_graph=True)
    (g,) = ad.autograd.grad(old, edge, retain_graph=True)
    assert g.tolist() == [2, 2]
    old.backward()  # as in PyTorch, old graphs still add to the gradient
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 5]


@pytest.mark.parametrize("view", [False, True])
def test_set_of_a_computed_tensor_ends_its_history_in_an_error(view):
    x, source = ad.ones(2, requires_grad=True), ad.tensor([5.0, 6.0])
    y = x * 2
    t = y.view(2) if view else y
    assert t.set_(source) is t
    assert t.tolist() == [5, 6]
    with pytest.raises(RuntimeError, match=r"derivative for set_ is not implemented.*copy_\(\)"):
        (t * 3).sum().backward()
    y = x * 2
    with ad.no_grad():
        y.set_(source)
    assert y.grad_fn.name() == "MulBackward0"  # nothing is recorded, as in PyTorch


def test_set_lets_old_graphs_and_the_tensor_go():
    seen = []
    x = ad.ones(2, requires_grad=True)
    x.register_hook(seen.append)
    old = (x * 2).sum()
    with ad.no_grad():
        x.set_(ad.zeros(5))
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3] * 5
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match=r"got \[2\] but expected shape compatible with \[5\]"):
        old.backward()
    gone = weakref.ref(x)
    del x
    assert gone() is not None  # the old graph has it
    del old
    assert gone() is None
    y = ad.ones(2, requires_grad=True)
    with ad.no_grad():
        for _ in range(3):
            y.set_(ad.zeros(2))
    gone = weakref.ref(y)
    del y
    assert gone() is None


def test_functions_are_mapped_over_elements() -> None:
    x = ad.arange(4.0).view(2, 2)
    assert x.clone().map_(ad.tensor([10.0, 20.0]), lambda a, b: a + b).tolist() == [
        [10, 21],
        [12, 23],
    ]
    mapped = x.clone().map2_(ad.tensor([1.0, 2.0]), ad.tensor([[3.0]]), lambda a, b, c: a + b * c)
    assert mapped.tolist() == [[3, 7], [5, 9]]
    with pytest.raises(TypeError, match="must return numbers, not str"):
        x.apply_(lambda a: "text")
    with pytest.raises(TypeError, match="not callable"):
        x.map_(x, "text")
    with pytest.raises(RuntimeError, match="requires grad"):
        x.map2_(x, ad.rand(1, requires_grad=True), lambda a, b, c: a)
    assert x.tolist() == [[0, 1], [2, 3]]


def test_reversed_turns_the_first_axis_only() -> None:
    assert reversed(ad.arange(4).view(2, 2)).tolist() == [[2, 3], [0, 1]]
    assert reversed(ad.tensor(3)).item() == 3


def test_subclasses_stay_what_they_are_through_casts_and_views() -> None:
    class Mine(ad.Tensor):
        pass

    x = ad.ones(2, 2).as_subclass(Mine)
    made = {
        "detach": x.detach(), "to": x.to(ad.float64), "double": x.double(), "half": x.half(),
        "T": x.T, "mT": x.mT, "data": x.data,
    }  # fmt: skip
    assert {name: type(t) for name, t in made.items()} == dict.fromkeys(made, Mine)
    assert made["double"].dtype == ad.float64 and made["half"].dtype == ad.float16
    parameter = ad.nn.Parameter(ad.ones(2, 2))
    assert type(parameter.detach()) is type(parameter.T) is type(parameter.data) is ad.Tensor


def test_methods_ask_a_class_that_wants_to_be_asked() -> None:
    asked = []

    class Asking(ad.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append((func.__name__, len(args), sorted(kwargs or {})))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = ad.ones(2).as_subclass(Asking)
    x.to(ad.float64, copy=True)
    x.detach()
    _ = x.T
    assert asked == [("to", 2, ["copy"]), ("detach", 1, []), ("__get__", 1, [])]


@pytest.mark.parametrize("convert", [int, float, complex])
def test_one_element_is_needed_for_a_python_number(convert: Any) -> None:
    for size in (0, 2):
        with pytest.raises(ValueError, match="only one element tensors can be converted"):
            convert(ad.zeros(size))


def test_complex_elements_without_imaginary_part_are_numbers() -> None:
    assert int(ad.tensor(3 + 0j)) == 3 and float(ad.tensor(2.5 + 0j)) == 2.5
    with pytest.raises(RuntimeError, match="to type int64_t without overflow: it is complex"):
        int(ad.tensor(1 + 1j))


# --- addresses ------------------------------------------------------------------------------------
def test_elements_between_addresses_are_refused_or_copied() -> None:
    """Loops may use instructions that fault there."""
    raw = np.zeros(84, np.uint8)
    array = raw[1:81].view(np.float64)
    array[:] = range(10)
    for share in (
        lambda: ad.from_numpy(array),
        lambda: ad.frombuffer(bytearray(66), dtype=ad.float32, offset=2),
        lambda: ad.from_numpy(raw[4:84].view(np.float32)).view(ad.float64),
    ):
        with pytest.raises(
            RuntimeError, match=r"cannot lie at address .* not a multiple of [48] byt"
        ):
            share()
    assert ad.tensor(array).tolist() == ad.as_tensor(array).tolist() == list(range(10))
    assert ad.from_numpy(raw[4:84].view(np.float32)).view(ad.int32).sum() != 1
    assert ad.from_numpy(raw[1:1].view(np.float64)).shape == (0,)
