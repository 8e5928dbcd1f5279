"""The pages of the reference on what is written in Python, a page for each room.

A page lists what its module has in `__all__`, by the shortest name that a program can write
(`adjoint.scan`, not `adjoint.loops.scan`); autodoc brings signatures and docstrings. Used by
gen_reference.py.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Room:
    """A page: its title, guides to it, the modules whose names it lists, and names beside these."""

    title: str
    guides: tuple[str, ...]
    modules: tuple[str, ...]
    more: tuple[str, ...] = ()
    members: bool = True  # whether methods of its classes are listed too

    def about(self) -> str:
        """A line below the title."""
        if not self.guides:
            return "PyTorch's, with its arguments and defaults."
        links = ", ".join(f"[](../../guides/{name}.md)" for name in self.guides)
        return f"{'Guide' if len(self.guides) == 1 else 'Guides'}: {links}."


TENSOR = [
    *("grad", "requires_grad", "grad_fn", "is_leaf", "retains_grad", "backward", "retain_grad"),
    *("register_hook", "register_post_accumulate_grad_hook", "requires_grad_", "detach", "data"),
    *("shape", "dtype", "device", "ndim", "item", "tolist", "numpy", "to", "size", "stride"),
    *("numel", "is_contiguous", "share_memory_"),
]
MAKING = ["tensor", "as_tensor", "from_numpy", "from_dlpack", "manual_seed", "set_default_dtype"]
DIFFERENCES = ["Central", "Forward", "ComplexStep", "Richardson", "Spsa", "Linear"]
CHECKPOINTS = ("utils.checkpoint.checkpoint", "utils.checkpoint.checkpoint_sequential")

ROOMS = {
    "tensors": Room(
        "Tensors",
        ("in-place", "graph"),
        (),
        (*MAKING, *(f"Tensor.{name}" for name in TENSOR)),
    ),
    "gradients": Room(
        "Gradients",
        ("backward", "custom-functions", "in-place"),
        ("autograd", "autograd.graph", "autograd.forward_ad"),
    ),
    "transforms": Room("Transforms", ("transforms",), ("func",)),
    "composites": Room("Composites", ("composites",), ("composite",)),
    "loops": Room("Loops", ("loops", "checkpointing"), ("loops",), ("cond", *CHECKPOINTS)),
    "externals": Room(
        "Externals and differences",
        ("externals",),
        ("external", "external.parsers"),
        tuple(f"differences.{name}" for name in DIFFERENCES),
    ),
    "checks": Room("Checks", ("check", "gradcheck"), ("check", "testing")),
    "seeing": Room(
        "The graph, profiles and plots",
        ("graph", "stepping", "profiling", "plots"),
        ("graph", "plot"),
        ("profile", "notebook.show"),
    ),
    "solvers": Room("Solvers", ("solvers",), ("optimize",)),
    "equations": Room(
        "Differential equations, integrals, interpolation",
        ("differential-equations",),
        ("integrate", "interpolate"),
    ),
    "signals": Room("Signals", ("signal",), ("signal",)),
    "sparse": Room("Sparse matrices", ("sparse", "sparse-solvers"), ("sparse", "sparse.linalg")),
    "networks": Room("Layers of networks", (), ("nn",), members=False),
    "functional": Room("Functions of networks", (), ("nn.functional",)),
    "optimisers": Room(
        "Optimisers and schedules", (), ("optim", "optim.lr_scheduler"), members=False
    ),
    "distributions": Room("Distributions", ("distributions",), ("distributions",), members=False),
    "files": Room("Files", ("files",), ("serialization",)),
    "parallel": Room(
        "Ensembles and processes",
        ("ensembles", "distributed"),
        ("parallel", "distributed"),
        members=False,
    ),
}


def short(module: str, name: str) -> str:
    """The shortest path to an object: `adjoint.scan` rather than `adjoint.loops.scan`."""
    import adjoint

    value = getattr(importlib.import_module(f"adjoint.{module}"), name)
    same = getattr(adjoint, name, None) is value
    return f"adjoint.{name}" if same else f"adjoint.{module}.{name}"


def find(path: str) -> object:
    """The object of a dotted path below `adjoint`."""
    value: object = importlib.import_module("adjoint")
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


def described(path: str) -> bool:
    """Whether it is a function, a class or an attribute that has a docstring."""
    value = find(path)
    wanted = callable(value) or inspect.isdatadescriptor(value)
    return wanted and not isinstance(value, ModuleType) and bool(inspect.getdoc(value))


def directive(path: str, members: bool) -> list[str]:
    value = find(path)
    if inspect.isdatadescriptor(value):
        return [f".. autoattribute:: {path}"]
    if not inspect.isclass(value):
        kind = "method" if path.startswith("adjoint.Tensor.") else "function"
        return [f".. auto{kind}:: {path}"]
    if issubclass(value, BaseException):
        return [f".. autoexception:: {path}"]
    # `apply` of custom functions is native, with a line for readers of the sources.
    options = ["   :members:", "   :exclude-members: apply"] if members else []
    return [f".. autoclass:: {path}", *options]


def page(room: Room, taken: set[str]) -> str:
    """The text of a page; `taken` has the names that other pages describe already."""
    lines = [f"# {room.title}", "", room.about(), "", "```{eval-rst}"]
    paths = [
        short(module, name)
        for module in room.modules
        for name in sorted(importlib.import_module(f"adjoint.{module}").__all__, key=str.lower)
    ]
    for path in [*paths, *(f"adjoint.{name}" for name in room.more)]:
        if path not in taken and described(path):
            taken.add(path)
            lines += directive(path, room.members)
    return "\n".join([*lines, "```", ""])


def pages(taken: set[str]) -> dict[str, str]:
    """The text of each page, by the name of its file, without the names in `taken`."""
    return {f"room-{name}": page(room, taken) for name, room in ROOMS.items()}
