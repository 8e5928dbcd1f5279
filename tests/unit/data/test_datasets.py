"""Datasets and samplers: PyTorch's samples in PyTorch's order."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.utils import data
from adjoint.utils.data import default_collate, default_convert

ORDERS = [
    "RandomSampler(d)",
    "RandomSampler(d, generator=g)",
    "RandomSampler(d, replacement=True)",
    "RandomSampler(d, replacement=True, num_samples=100, generator=g)",
    "RandomSampler(d, num_samples=100)",
    "RandomSampler(d, num_samples=7)",
    "SequentialSampler(d)",
    "SubsetRandomSampler([5, 3, 9, 2], generator=g)",
    "WeightedRandomSampler([0.1, 0.5, 0.4], 20)",
    "WeightedRandomSampler([0.1, 0.5, 0.4], 2, replacement=False, generator=g)",
    "BatchSampler(data.SequentialSampler(d), 8, False)",
    "BatchSampler(data.RandomSampler(d), 8, True)",
    "DistributedSampler(d, 3, 1)",
    "DistributedSampler(d, 3, 2, shuffle=False)",
    "DistributedSampler(d, 7, 6, drop_last=True, seed=4)",
    "DistributedSampler(range(3), 8, 7)",
]


@pytest.mark.parametrize("code", ORDERS)
def test_orders_are_pytorchs(code: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (ad, torch):
        lib.manual_seed(7)
        g = lib.Generator()
        g.manual_seed(3)
        names = {"data": lib.utils.data, "d": range(37), "g": g}
        sampler = eval("data." + code, names)
        epochs = [list(sampler)]
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(5)
        epochs.append(list(sampler))
        assert len(sampler) == len(epochs[0])
        # What is drawn afterwards shows how much was drawn.
        found.append((epochs, lib.rand(1).item(), lib.rand(1, generator=g).item()))
    assert found[0] == found[1]


def test_a_random_split_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for lengths in ([3, 7], [0.5, 0.25, 0.25], [0.33, 0.33, 0.34]):
        parts = []
        for lib in (ad, torch):
            lib.manual_seed(1)
            split = lib.utils.data.random_split(range(10), lengths)
            parts.append([list(part.indices) for part in split])
        assert parts[0] == parts[1]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.9, 0.1])


class Squares(data.Dataset):
    """With batches at once."""

    def __init__(self, size: int) -> None:
        self.size, self.asked = size, []

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index):
        return index * index

    def __getitems__(self, indices):
        self.asked.append(indices)
        return [index * index for index in indices]


class Counting(data.IterableDataset):
    """One number after the other."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end

    def __iter__(self):
        return iter(range(self.begin, self.end))

    def __len__(self) -> int:
        return self.end - self.begin


def test_datasets_are_joined_and_stacked() -> None:
    both = Squares(3) + Squares(4)
    assert [both[i] for i in range(7)] == [0, 1, 4, 0, 1, 4, 9]
    assert both[-1] == 9 and len(both) == 7
    with pytest.warns(FutureWarning, match="renamed to `cumulative_sizes`"):
        assert both.cummulative_sizes == [3, 7]
    chained = Counting(0, 2) + Counting(5, 7)
    assert list(chained) == [0, 1, 5, 6] and len(chained) == 4
    pair = data.StackDataset(Squares(3), [7, 8, 9])
    assert pair[1] == (1, 8) and pair.__getitems__([0, 2]) == [(0, 7), (4, 9)]
    named = data.StackDataset(a=Squares(3), b=[7, 8, 9])
    assert named[1] == {"a": 1, "b": 8} and named.__getitems__([2]) == [{"a": 4, "b": 9}]
    part = data.Subset(Squares(9), [8, 1])
    assert next(iter(data.DataLoader(part, 2))).tolist() == [64, 1]
    assert part.dataset.asked == [[8, 1]]
    assert data.Subset(data.TensorDataset(ad.arange(5)), [4, 2])[[1, 0]][0].tolist() == [2, 4]


Pair = namedtuple("Pair", "a b")


class Words(list):
    """A list with an attribute."""

    language = "none"


SAMPLES = [
    "[1, 2]",
    "[1.5, 2.5]",
    "[True, False]",
    "['a', 'b']",
    "[b'a', b'b']",
    "[t([1, 2]), t([3, 4])]",
    "[np.ones((2, 3), 'f'), np.zeros((2, 3), 'f')]",
    "[np.float32(1), np.float32(2)]",
    "[np.int16(1), np.int16(2)]",
    "[np.bool_(True), np.bool_(False)]",
    "[np.float64(1), np.float64(2)]",
    "[(1, 2.0), (3, 4.0)]",
    "[[1, t([2.0])], [3, t([4.0])]]",
    "[{'a': 1, 'b': [2, 3]}, {'a': 4, 'b': [5, 6]}]",
    "[Pair(1, 'x'), Pair(2, 'y')]",
    "[OrderedDict(a=1), OrderedDict(a=2)]",
    "[Words([1, 2]), Words([3, 4])]",
    "[range(2), range(2)]",
    "[np.zeros(2, '>f4'), np.ones(2, '>f4')]",
]
WRONG = [
    "[t([1]), t([1, 2])]",
    "[(1, 2), (3,)]",
    "[object(), object()]",
    "[np.array(['a']), np.array(['b'])]",
    "[None, None]",
    "[np.zeros(2), np.zeros(3)]",
]


def _plain(value):
    """Tensors as dtype and values, with the classes of what holds them."""
    if isinstance(value, dict):
        return type(value), {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return type(value), [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return str(value.dtype).split(".")[-1], value.tolist()
    return value


def _names(lib):
    return {
        "t": lib.tensor,
        "np": np,
        "Pair": Pair,
        "OrderedDict": OrderedDict,
        "Words": Words,
    }


@pytest.mark.parametrize("function", ["default_collate", "default_convert"])
@pytest.mark.parametrize("code", SAMPLES)
def test_batches_are_pytorchs(code: str, function: str) -> None:
    torch = pytest.importorskip("torch")
    results = []
    for lib in (ad, torch):
        if ">f4" in code and lib is torch:  # which refuses this byte order
            code = code.replace(">", "<")
        batch = eval(code, _names(lib))
        results.append(_plain(getattr(lib.utils.data, function)(batch)))
    assert results[0] == results[1]


@pytest.mark.parametrize("code", WRONG)
def test_what_makes_no_batch_is_refused_as_by_pytorch(code: str) -> None:
    torch = pytest.importorskip("torch")
    raised = []
    for lib in (ad, torch):
        with pytest.raises((RuntimeError, TypeError)) as caught:
            lib.utils.data.default_collate(eval(code, _names(lib)))
        raised.append(caught.type)
    assert raised[0] is raised[1]


def test_the_table_of_collating_functions_can_be_extended() -> None:
    from adjoint.utils.data._utils.collate import collate, default_collate_fn_map

    def keep(batch, *, collate_fn_map=None):
        return list(batch)

    table = {Squares: keep, **default_collate_fn_map}
    one, two = Squares(1), Squares(2)
    assert collate([(one, 1), (two, 2)], collate_fn_map=table)[0] == [one, two]
    table = {**default_collate_fn_map, ad.Tensor: keep}
    assert len(collate([np.ones(2), np.ones(3)], collate_fn_map=table)) == 2


def test_conversion_keeps_texts_and_shares_memory() -> None:
    array = np.zeros(2)
    converted = default_convert({"a": array, "b": np.array(["x"]), "c": np.str_("y")})
    array[0] = 5
    assert converted["a"].tolist() == [5, 0]
    assert converted["b"].dtype.kind == "U" and isinstance(converted["c"], np.str_)
    assert default_collate([ad.zeros(1, requires_grad=True)]).requires_grad


# Without mpi4py there are no groups; with it there is one once it was initialized.
NO_GROUP = (
    (RuntimeError, ValueError),
    "give num_replicas and rank|group has not been initialized",
)
REFUSED = [
    (lambda: data.Dataset()[0], NotImplementedError, "should implement __getitem__"),
    (lambda: iter(data.Sampler()), NotImplementedError, "^$"),
    (lambda: data.TensorDataset(ad.ones(2), ad.ones(3)), AssertionError, "Size mismatch"),
    (lambda: data.StackDataset(), ValueError, "At least one dataset should be passed"),
    (lambda: data.StackDataset([1], a=[1]), ValueError, "but both types are given"),
    (lambda: data.StackDataset([1], [1, 2]), ValueError, "Size mismatch between datasets"),
    (
        lambda: data.StackDataset(
            type("D", (Squares,), {"__getitems__": lambda *a: []})(2)
        ).__getitems__([1]),
        ValueError,
        "Expected 1, got 0",
    ),
    (lambda: data.ConcatDataset([]), AssertionError, "should not be an empty iterable"),
    (lambda: data.ConcatDataset([Counting(0, 1)]), AssertionError, "not support IterableDataset"),
    (lambda: data.ConcatDataset([[1]])[-2], ValueError, "should not exceed dataset length"),
    (lambda: list(data.ChainDataset([[1]])), AssertionError, "only supports IterableDataset"),
    (
        lambda: type("D", (data.Subset,), {"__getitem__": lambda *a: 0})([1], [0]),
        NotImplementedError,
        "D overrides __getitem__ but not __getitems__",
    ),
    (lambda: data.random_split([1], [2]), ValueError, "Sum of input lengths does not equal"),
    (lambda: data.random_split([1], [1.5, -0.5]), ValueError, "index 0 is not between 0 and 1"),
    (lambda: data.RandomSampler([1], replacement=1), TypeError, "replacement should be a boolean"),
    (lambda: data.RandomSampler([]), ValueError, "positive integer value, but got num_samples=0"),
    (lambda: data.WeightedRandomSampler([1], 0), ValueError, "but got num_samples=0"),
    (lambda: data.WeightedRandomSampler([1], 1, 2), ValueError, "but got replacement=2"),
    (lambda: data.WeightedRandomSampler([[1]], 1), ValueError, "weights should be a 1d sequence"),
    (lambda: data.BatchSampler([1], 0, False), ValueError, "but got batch_size=0"),
    (lambda: data.BatchSampler([1], 1, 0), ValueError, "drop_last should be a boolean value"),
    (lambda: data.DistributedSampler([1]), *NO_GROUP),
    (lambda: data.DistributedSampler([1], 2), *NO_GROUP),
    (lambda: data.DistributedSampler([1], 2, 2), ValueError, r"in the interval \[0, 1\]"),
    (lambda: default_collate([(1, 2), (3,)]), RuntimeError, "should be of equal size"),
    (lambda: default_collate([None]), TypeError, "batch must contain tensors, numpy arrays"),
    (lambda: default_collate([np.array(["a"])]), TypeError, "default_collate: batch must contain"),
    (lambda: data.nothing, AttributeError, "nothing"),
]


@pytest.mark.parametrize("row", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_is_refused(row) -> None:
    call, error, text = row
    with pytest.raises(error, match=text):
        call()
