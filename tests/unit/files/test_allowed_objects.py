"""What files may make: data by themselves, classes that are allowed, anything with a choice."""

from __future__ import annotations

import copyreg
import enum
import io
import pickle
import subprocess
import sys
from collections import OrderedDict, UserDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest

import adjoint as ad
from adjoint import serialization
from adjoint.serialization import LoadError
from tests.children import ROOT, WITH_CHECKOUT


class Ran:
    """Tells that it was made."""

    made: ClassVar[list[Any]] = []

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return make_ran, (self.value,)


def make_ran(value: Any) -> Ran:
    Ran.made.append(value)
    return Ran(value)


class Stateful:
    def __init__(self) -> None:
        self.kept = [ad.ones(2)]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.kept = state["kept"]
        self.restored = True


class Slots:
    __slots__ = ("a", "b")


@dataclass
class Plain:
    x: Any
    y: Any = None


@dataclass
class Checked:
    """A dataclass with a method for being rebuilt."""

    x: Any

    def __setstate__(self, state: dict[str, Any]) -> None:
        Ran.made.append("checked")
        self.__dict__.update(state)


@dataclass(frozen=True, slots=True)
class Fixed:
    n: Any


class Pair(NamedTuple):
    a: Any
    b: Any


class Net(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.ReLU(), ad.nn.Dropout())
        self.register_buffer("seen", ad.zeros(1))

    def forward(self, x: ad.Tensor) -> Any:
        return self.layers(x)


class Sub(ad.Tensor):
    """A tensor of the user's."""


class Colour(enum.Flag):
    RED = 1
    BLUE = 2


def file_of(obj: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    ad.save(obj, file, **options)
    file.seek(0)
    return file


def again(obj: Any, **options: Any) -> Any:
    return ad.load(file_of(obj), **options)


@pytest.fixture(autouse=True)
def clean() -> Any:
    Ran.made.clear()
    serialization.clear_safe_globals()
    yield
    serialization.clear_safe_globals()


@pytest.mark.parametrize(
    "obj",
    [
        Plain(1, [ad.ones(2)]), Fixed((1, 2)), Pair(1, {"x": 2}), Colour.RED,
        Colour.RED | Colour.BLUE, SimpleNamespace(a=1, b=[2]), {Fixed(1).n: Plain(2)},
        [Plain(Plain(Plain(1)))],
    ],
    ids=repr,
)  # fmt: skip
def test_data_of_imported_classes_comes_back(obj: Any) -> None:
    back = again(obj)
    assert type(back) is type(obj) and repr(back) == repr(obj)


@pytest.mark.parametrize(
    "obj",
    [Ran(1), Stateful(), Checked(1), Net(), UserDict(a=1)],
    ids=lambda obj: type(obj).__name__,
)
def test_other_objects_need_a_choice(obj: Any) -> None:
    with pytest.raises(LoadError, match="Weights only load failed") as caught:
        again({"a": [obj]})
    assert isinstance(caught.value, pickle.UnpicklingError) and Ran.made == []
    back = again({"a": [obj]}, weights_only=False)["a"][0]
    assert type(back) is type(obj)


def test_allowed_classes_get_their_state_in_their_way() -> None:
    with serialization.safe_globals([Stateful]):
        back = again(Stateful())
    assert back.restored and back.kept[0].tolist() == [1, 1]
    with pytest.raises(LoadError, match=r"add_safe_globals\(\[Stateful\]\)"):
        again(Stateful())
    assert again(Stateful(), classes=[Stateful]).restored
    serialization.add_safe_globals([Slots])
    made = Slots()
    made.a, made.b = 1, ad.ones(1)
    back = again(made)
    assert back.a == 1 and back.b.tolist() == [1]
    assert serialization.get_safe_globals() == [Slots]


def test_allowed_functions_are_called() -> None:
    file = file_of(Ran(7))
    assert serialization.get_unsafe_globals_in_checkpoint(file) == [f"{__name__}.make_ran"]
    serialization.add_safe_globals([make_ran])
    file.seek(0)
    assert serialization.get_unsafe_globals_in_checkpoint(file) == []
    file.seek(0)
    assert ad.load(file).value == 7 and Ran.made == [7]


def test_names_may_be_given_with_a_path() -> None:
    data = file_of(Stateful()).getvalue().replace(b"Stateful", b"Restless")
    with pytest.raises(LoadError, match="checksum"):
        ad.load(io.BytesIO(data))
    serialization.set_crc32_options(False)
    try:
        data = file_of(Stateful()).getvalue().replace(b"Stateful", b"Restless")
    finally:
        serialization.set_crc32_options(True)
    with serialization.safe_globals([(Stateful, f"{__name__}.Restless")]):
        assert ad.load(io.BytesIO(data)).restored
    for wrong, error in (((Stateful,), ValueError), ((Stateful, 3), TypeError)):
        with serialization.safe_globals([wrong]), pytest.raises(error):  # type: ignore[list-item]
            ad.load(io.BytesIO(data))


def test_some_modules_are_never_allowed() -> None:
    import os

    serialization.add_safe_globals([os.system, os.getcwd])
    for name in (b"posix\nsystem", b"os\nsystem", b"nt\nsystem", b"sys\nexit"):
        from tests.errors.test_files import run

        with pytest.raises(LoadError, match=r"whose module [a-z]+ is blocked"):
            run(b"c" + name + b"\n(Vtrue\ntR.")


def test_whole_modules_come_back() -> None:
    net = Net().eval()
    x = ad.ones(1, 2)
    for options in ({}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}):
        back = ad.load(file_of(net, **options), weights_only=False)
        assert type(back) is Net and back(x).tolist() == net(x).tolist() and not back.training
    serialization.add_safe_globals([
        Net, ad.nn.Sequential, ad.nn.Linear, ad.nn.ReLU, ad.nn.Dropout,
    ])  # fmt: skip
    assert again(net)(x).tolist() == net(x).tolist()


def test_tensors_of_subclasses_come_back() -> None:
    t = ad.arange(3.0).as_subclass(Sub)
    t.tag = [1]
    back, other = again([t, t], classes=[Sub])
    assert type(back) is Sub and back is other and back.tag == [1] and back.tolist() == [0, 1, 2]
    marked = ad.nn.Parameter(t)
    back = again(marked, weights_only=False)
    assert isinstance(back, ad.nn.Parameter) and type(back) is Sub


class Slotted(ad.Tensor):
    __slots__ = ("kept",)


def test_slots_of_subclasses_come_back() -> None:
    t = ad.ones(2).as_subclass(Slotted)
    t.kept, t.other = 1, [2]
    for options in ({"weights_only": False}, {"classes": [Slotted]}):
        back = again(t, **options)
        assert type(back) is Slotted and back.kept == 1 and back.other == [2]


class Registered:
    def __init__(self, value: Any) -> None:
        self.value = value


def test_what_copyreg_knows_is_saved_so() -> None:
    copyreg.pickle(Registered, lambda obj: (Registered, (obj.value,)))
    try:
        assert again(Registered(ad.ones(1)), weights_only=False).value.tolist() == [1]
    finally:
        copyreg.dispatch_table.pop(Registered)


def test_strings_that_look_like_names_stay_as_they_are() -> None:
    text = "cadjoint\nSize\n"
    obj = [ad.Size([1]), text, text.encode(), ad.float32, "cadjoint\nfloat32\n", {text: text}]
    assert again(obj) == obj
    assert again(OrderedDict(a=text, b=ad.Size([2]))) == OrderedDict(a=text, b=ad.Size([2]))


def test_parts_that_are_made_anew_are_saved() -> None:
    class_ = Anew()
    back = again(class_, weights_only=False)
    assert back[0].tolist() == [0.0, 0.0] and back[1].tolist() == [0, 0]
    back[0][0] = 1.0
    assert back[1][0] == 0x3F800000


class Anew:
    """Two dtypes on memory that is another one whenever it is pickled."""

    def __reduce__(self) -> Any:
        t = ad.zeros(2)
        return list, ([t, t.view(ad.int32)],)


SCRIPT = """
import sys, torch
from dataclasses import dataclass

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1)

@dataclass
class Config:
    lr: float
    shape: torch.Size

if sys.argv[1] == "save":
    torch.save({"net": Net(), "config": Config(0.1, torch.Size([2]))}, sys.argv[2])
else:
    found = torch.load(sys.argv[2], weights_only=False)
    assert type(found["net"]) is Net and found["config"] == Config(0.1, torch.Size([2]))
    print("fc.weight" in found["net"].state_dict(), torch.load.__module__)
"""


def test_classes_of_a_script_come_back(tmp_path: Any) -> None:
    script, target = tmp_path / "script.py", str(tmp_path / "file.pt")
    script.write_text(SCRIPT)
    for action in ("save", "load"):
        out = subprocess.run(
            [sys.executable, "-m", "adjoint", "run", str(script), action, target],
            cwd=ROOT, env=WITH_CHECKOUT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert out.returncode == 0, out.stderr[-2000:]
    assert out.stdout.split()[0] == "True"


def test_what_cannot_be_pickled_is_named_by_its_place() -> None:
    net = Net()
    net.layers[0].act = lambda x: x
    file = io.BytesIO()
    with pytest.raises((pickle.PicklingError, AttributeError)) as caught:
        ad.save({"a": [1, net]}, file)
    assert caught.value.__notes__[-1:] == [
        "in saving the object['a'][1]._modules['layers']._modules['0'].act"
    ]
    assert file.getvalue() == b""


def test_containers_that_hold_themselves_come_back() -> None:
    made: list[Any] = [1]
    made.append({"self": made})
    back = again(made)
    assert back[1]["self"] is back
