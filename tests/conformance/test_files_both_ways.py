"""What adjoint saves PyTorch loads, and the other way round."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

from tests.conformance import files_of_both as both  # noqa: E402
from tests.conformance.files_of_both import (  # noqa: E402
    Maker,
    ours_to_theirs,
    same,
    same_tensor,
    sharing,
    theirs_to_ours,
)

OLD = {"_use_new_zipfile_serialization": False}
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support"),
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated"),
]


@pytest.mark.parametrize("seed", range(40))
def test_random_structures_both_ways(seed: int) -> None:
    ours, theirs = Maker(ad, seed).any(), Maker(torch, seed).any()
    protocol = (2, 2, 3, 4, 5)[seed % 5]
    options = OLD if seed % 4 == 3 else {}
    loaded = ours_to_theirs(ours, pickle_protocol=protocol, **options)
    same(ours, loaded)
    assert sharing(ours) == sharing(loaded)
    loaded = theirs_to_ours(theirs, pickle_protocol=protocol, **options)
    same(loaded, theirs)
    assert sharing(loaded) == sharing(theirs)


@pytest.mark.parametrize("seed", range(20))
def test_data_is_read_without_being_executed(seed: int) -> None:
    """All of it but the object with methods of its own."""
    maker = Maker(torch, f"data {seed}")
    theirs = [maker.tensor(), maker.sparse(), maker.array(), maker.scalar(), maker.scalar()]
    same(theirs_to_ours(theirs, weights_only=True), theirs)


@pytest.mark.parametrize("dtype", both.DTYPES)
def test_state_dicts_of_every_dtype(dtype: str) -> None:
    state = OrderedDict(w=ad.tensor([[0, 1], [2, 3]]).to(getattr(ad, dtype)), b=ad.tensor(1))
    state._metadata = OrderedDict(a=1)  # type: ignore[attr-defined]
    loaded = ours_to_theirs(state, weights_only=True)
    assert list(loaded) == ["w", "b"] and loaded._metadata == state._metadata  # type: ignore[attr-defined]
    same_tensor(state["w"], loaded["w"])


def test_one_storage_with_several_dtypes() -> None:
    """PyTorch itself refuses to save this; it can load it."""
    x = ad.arange(6.0)
    loaded = ours_to_theirs([x, x.view(ad.int32), x.view(ad.uint8)[4:]], weights_only=True)
    loaded[0][1] = 2.0
    assert loaded[1][1] == 0x40000000 and loaded[2].storage_offset() == 4
    assert loaded[2][:4].tolist() == [0, 0, 0, 0x40]


def test_memory_that_was_imported_twice_stays_shared() -> None:
    array = np.arange(10.0)
    parts = [ad.from_numpy(array[2:]), ad.from_numpy(array[:5]), ad.from_numpy(array[4:8])]
    for loaded in (ours_to_theirs(parts, weights_only=True), again(parts)):
        assert [t.tolist() for t in loaded] == [t.tolist() for t in parts]
        loaded[0][2] = -1.0
        assert loaded[1][4] == -1.0 and loaded[2][0] == -1.0
        assert loaded[0].untyped_storage().nbytes() == 80


def again(obj: Any, **options: Any) -> Any:
    file = io.BytesIO()
    ad.save(obj, file)
    file.seek(0)
    return ad.load(file, **options)


def trained(lib: Any, optimiser: str) -> dict[str, Any]:
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 1))
    made = getattr(lib.optim, optimiser)(model.parameters(), lr=0.1)
    for _ in range(2):
        made.zero_grad()
        model(lib.ones(5, 3)).sum().backward()
        made.step()
    schedule = lib.optim.lr_scheduler.StepLR(made, 2)
    return {"model": model.state_dict(), "optimiser": made.state_dict(),
            "schedule": schedule.state_dict(), "rng": lib.get_rng_state(), "epoch": 2}  # fmt: skip


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
def test_training_goes_on_in_the_other_library(name: str) -> None:
    ours = trained(ad, name)
    loaded = ours_to_theirs(ours, weights_only=True)
    same(ours, loaded)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)
    )
    model.load_state_dict(loaded["model"])
    optimiser = getattr(torch.optim, name)(model.parameters())
    optimiser.load_state_dict(loaded["optimiser"])
    model(torch.ones(5, 3)).sum().backward()
    optimiser.step()
    theirs = trained(torch, name)
    same(theirs_to_ours(theirs, weights_only=True), theirs)


LAYERS: dict[str, Any] = {
    "Linear": (lambda nn: nn.Linear(4, 3), (2, 4)),
    "Conv2d": (lambda nn: nn.Conv2d(2, 4, 3, padding=1, groups=2), (1, 2, 5, 5)),
    "ConvTranspose1d": (lambda nn: nn.ConvTranspose1d(2, 3, 2), (1, 2, 5)),
    "BatchNorm1d": (lambda nn: nn.BatchNorm1d(4), (3, 4)),
    "LSTM": (lambda nn: nn.LSTM(4, 3, 2, bidirectional=True), (5, 2, 4)),
    "GRU": (lambda nn: nn.GRU(4, 3, batch_first=True), (2, 5, 4)),
    "Embedding": (lambda nn: nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), (2, 4)),
    "LayerNorm": (lambda nn: nn.LayerNorm(4), (2, 4)),
    "GroupNorm": (lambda nn: nn.GroupNorm(2, 4), (2, 4, 3)),
    "encoder layer": (lambda nn: nn.TransformerEncoderLayer(4, 2, 8), (3, 2, 4)),
    "encoder": (
        lambda nn: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 8, activation="gelu", batch_first=True), 2
        ),
        (3, 2, 4),
    ),
    "Sequential": (
        lambda nn: nn.Sequential(
            OrderedDict(
                a=nn.Linear(4, 5), b=nn.ReLU(), c=nn.Dropout(0.5), d=nn.ModuleList([nn.Tanh()])[0]
            )
        ),
        (2, 4),
    ),
    "MaxPool2d": (lambda nn: nn.MaxPool2d(2), (1, 1, 4, 4)),
    "Softmax": (lambda nn: nn.Softmax(dim=1), (2, 4)),
    "PReLU": (lambda nn: nn.PReLU(), (2, 4)),
}


def result(module: Any, x: Any) -> Any:
    found = module.eval()(x)
    return (found[0] if isinstance(found, tuple) else found).detach().tolist()


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", [{}, OLD], ids=["zip", "old"])
def test_whole_modules_both_ways(name: str, options: Any) -> None:
    make, shape = LAYERS[name]
    theirs_x = torch.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    ours_x = ad.tensor(theirs_x.tolist())
    ours, theirs = make(ad.nn), make(torch.nn)
    for there, back in ((ours_to_theirs(ours, **options), ours),
                        (theirs, theirs_to_ours(theirs, **options))):  # fmt: skip
        assert repr(there) == repr(back)
        same(back.state_dict(), there.state_dict())
        np.testing.assert_allclose(result(back, ours_x), result(there, theirs_x), atol=1e-5)
        there.train()
        back.train()


def test_attention_and_embedding_both_ways() -> None:
    for make in (lambda nn: nn.MultiheadAttention(4, 2), lambda nn: nn.Embedding(5, 3, 0)):
        ours, theirs = make(ad.nn), make(torch.nn)
        same(ours.state_dict(), ours_to_theirs(ours).state_dict())
        loaded = theirs_to_ours(theirs)
        same(loaded.state_dict(), theirs.state_dict())
        assert repr(loaded) == repr(theirs) and type(loaded) is type(ours)


def test_optimisers_and_tied_weights_both_ways() -> None:
    for lib, move in ((ad, ours_to_theirs), (torch, theirs_to_ours)):
        model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 2))
        model[1].weight = model[0].weight
        optimiser = lib.optim.Adam(model.parameters())
        model(lib.ones(1, 2)).sum().backward()
        optimiser.step()
        there, moved = move((model, optimiser))
        assert there[0].weight is there[1].weight is moved.param_groups[0]["params"][0]
        assert there[0].weight in moved.state
        moved.step()


def test_names_are_where_pytorch_has_them() -> None:
    """Every class in torch.nn and torch.optim, so that safe globals of PyTorch's match too."""
    from adjoint.serialization._torch_places import place_in_torch

    for ours, theirs in ((ad.nn, torch.nn), (ad.optim, torch.optim),
                         (ad.optim.lr_scheduler, torch.optim.lr_scheduler)):  # fmt: skip
        for name, cls in vars(theirs).items():
            there = getattr(ours, name, None)
            if isinstance(cls, type) and cls.__module__.startswith("torch.") and there is not None:
                place = place_in_torch(there.__module__, there.__qualname__)
                assert place == (cls.__module__, cls.__qualname__)


class OurTensor(ad.Tensor):
    """A tensor of the user's."""


def test_tensors_of_other_classes_come_back() -> None:
    t = ad.ones(2).as_subclass(OurTensor)
    t.tag = "x"
    with pytest.raises(ad.serialization.LoadError, match=r"add_safe_globals\(\[OurTensor\]\)"):
        again(t)
    for options in ({"weights_only": False}, {"classes": [OurTensor]}):
        back = again(t, **options)
        assert type(back) is OurTensor and back.tag == "x" and back.tolist() == [1, 1]


def test_safe_globals_of_pytorch_match() -> None:
    file = io.BytesIO()
    ad.save(ad.nn.Linear(2, 2), file)
    file.seek(0)
    assert "torch.nn.modules.linear.Linear" in torch.serialization.get_unsafe_globals_in_checkpoint(
        file
    )
    file.seek(0)
    names = ad.serialization.get_unsafe_globals_in_checkpoint(file)
    assert names == ["torch.nn.modules.linear.Linear"]
    file.seek(0)
    with ad.serialization.safe_globals([ad.nn.Linear]):
        assert type(ad.load(file)) is ad.nn.Linear
    assert ad.serialization.get_safe_globals() == []


def test_files_are_laid_out_as_pytorchs(tmp_path: Path) -> None:
    """Mapped by PyTorch, which computes where records are; and mapped by us."""
    obj = [ad.arange(5.0), ad.ones(0), ad.arange(300, dtype=ad.int64), ad.ones(3)]
    ad.save(obj, tmp_path / "ours.pt")
    loaded = torch.load(tmp_path / "ours.pt", mmap=True)
    same(obj, loaded)
    torch.save(loaded, tmp_path / "theirs.pt")
    back = ad.load(tmp_path / "theirs.pt", mmap=True)
    same(back, loaded)
    for name in ("ours.pt", "theirs.pt"):
        on_meta = torch.load(tmp_path / name, map_location="meta")
        reader = torch._C.PyTorchFileReader(str(tmp_path / name))
        for i, t in enumerate(on_meta):
            place = t.untyped_storage()._checkpoint_offset
            assert place == reader.get_record_offset(f"data/{i}") and place % 64 == 0
    back[0][0] = 7.0  # in memory alone
    assert ad.load(tmp_path / "theirs.pt")[0][0] == 0.0


def test_a_generator_goes_on_in_the_other_library() -> None:
    for lib, move in ((ad, ours_to_theirs), (torch, theirs_to_ours)):
        generator = lib.Generator().manual_seed(3)
        lib.rand(5, generator=generator)
        moved = move(generator)
        other = torch if lib is ad else ad
        drawn = lib.rand(4, generator=generator).tolist()
        assert other.rand(4, generator=moved).tolist() == drawn


def test_functions_are_found_by_name() -> None:
    for lib, move, other in ((ad, ours_to_theirs, torch), (torch, theirs_to_ours, ad)):
        F = lib.nn.functional
        found = move([F.relu, F.gelu, lib.tanh, lib.nn.init.zeros_, F.cross_entropy])
        G = other.nn.functional
        assert found[:2] == [G.relu, G.gelu] and found[4] is G.cross_entropy
        assert found[2] is other.tanh or found[2](other.zeros(1)).tolist() == [0.0]


def test_tensors_without_values() -> None:
    for lib, move in ((ad, ours_to_theirs), (torch, theirs_to_ours)):
        t = lib.empty_strided((2, 3), (1, 2), device="meta")
        found, parameter = move([t, lib.nn.Parameter(t)], weights_only=True)
        assert found.device.type == "meta" and found.stride() == (1, 2)
        assert parameter.requires_grad and parameter.device.type == "meta"
    file = io.BytesIO()
    torch.save(torch.nn.Linear(2, 3).state_dict(), file)
    for place in ("meta", ad.device("meta")):
        file.seek(0)
        state = ad.load(file, map_location=place)
        assert state["weight"].is_meta and tuple(state["weight"].shape) == (3, 2)


def test_lazy_modules_come_back_lazy() -> None:
    for lib, move, other in ((ad, ours_to_theirs, torch), (torch, theirs_to_ours, ad)):
        found = move(lib.nn.LazyLinear(3))
        assert type(found.weight).__name__ == "UninitializedParameter"
        assert found(other.ones(2, 4)).shape == (2, 3) and type(found) is other.nn.Linear


def test_results_of_reductions() -> None:
    ours, theirs = ad.arange(6.0).reshape(2, 3).max(dim=1), torch.arange(6.0).reshape(2, 3).max(1)
    for found in (ours_to_theirs(ours), theirs_to_ours(theirs)):
        assert found.values.tolist() == [2, 5] and found.indices.tolist() == [2, 2]
        assert type(found).__name__ == "max"


def test_distributions_both_ways() -> None:
    import torch.distributions as theirs

    import adjoint.distributions as ours

    for make in (
        lambda d, lib: d.Normal(lib.zeros(2), lib.ones(2)),
        lambda d, lib: d.Independent(d.Gamma(lib.ones(3), lib.ones(3)), 1),
        lambda d, lib: d.Uniform(lib.zeros(2), lib.ones(2)),
    ):
        there, here = ours_to_theirs(make(ours, ad)), theirs_to_ours(make(theirs, torch))
        assert type(there).__module__.startswith("torch.")
        assert type(here).__module__.startswith("adjoint.") and repr(here) == repr(there)
        value = here.sample()
        expected = there.log_prob(torch.tensor(value.tolist()))
        np.testing.assert_allclose(here.log_prob(value).tolist(), expected.tolist(), rtol=1e-5)


def test_storages_come_back() -> None:
    for lib, move in ((ad, ours_to_theirs), (torch, theirs_to_ours)):
        t = lib.arange(3.0)
        found, again, t = move([t.storage(), t.storage(), t])
        assert found.tolist() == again.tolist() == t.tolist() == [0, 1, 2]
        assert found.data_ptr() == again.data_ptr() == t.data_ptr()
    x = ad.arange(3.0)
    found, x = ours_to_theirs([x.untyped_storage(), x])  # bytes and numbers
    assert found.nbytes() == 12 and found.data_ptr() == x.data_ptr()


def test_big_files_are_read(tmp_path: Path) -> None:
    """Of a machine with the other order of bytes."""
    import zipfile

    obj = [torch.arange(5.0), torch.arange(3, dtype=torch.int16), torch.tensor([1 + 2j])]
    torch.save(obj, tmp_path / "little")
    out = io.BytesIO()
    with zipfile.ZipFile(tmp_path / "little") as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            elif "/data/" in name:
                item = [4, 2, 4][int(name[-1])]
                data = np.frombuffer(data, f"u{item}").byteswap().tobytes()
            new.writestr(name, data)
    same(ad.load(io.BytesIO(out.getvalue())), obj)


def test_pickles_of_other_modules(tmp_path: Path) -> None:
    """A pickler of the caller's is used."""
    obj = {"x": ad.ones(2), "size": ad.Size([1])}
    loaded = ours_to_theirs(obj, pickle_module=pickle)
    assert loaded["size"] == torch.Size([1])
    file = io.BytesIO()
    torch.save({"x": torch.ones(2)}, file)
    file.seek(0)
    assert ad.load(file, pickle_module=pickle)["x"].tolist() == [1, 1]
    file.seek(0)
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        ad.load(file, pickle_module=pickle, weights_only=True)
