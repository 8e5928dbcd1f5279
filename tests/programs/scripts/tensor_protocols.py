"""Tensor subclasses, __torch_function__, modes, custom ops' gradcheck, pickling of objects."""

import functools
import io
import pickle

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

torch.manual_seed(0)
HANDLED = {}


def implements(function):
    def register(func):
        functools.update_wrapper(func, function)
        HANDLED[function] = func
        return func

    return register


class Unit:
    """A tensor with a unit, held, not inherited."""

    def __init__(self, data, unit):
        self.data, self.unit = torch.as_tensor(data), unit

    def __repr__(self):
        return f"Unit({self.data.tolist()}, {self.unit})"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED:
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))


@implements(torch.add)
def add(a, b):
    assert a.unit == b.unit
    return Unit(torch.add(a.data, b.data), a.unit)


@implements(torch.mean)
def mean(a):
    return Unit(a.data.mean(), a.unit)


print(torch.add(Unit([1.0, 2.0], "m"), Unit([3.0, 4.0], "m")), torch.mean(Unit([1.0, 3.0], "s")))
try:
    torch.mul(Unit(1.0, "m"), 2)
except TypeError as error:
    print(str(error).splitlines()[0])


class Named(torch.Tensor):
    @staticmethod
    def __new__(cls, x, name, *args, **kwargs):
        return super().__new__(cls, x, *args, **kwargs)

    def __init__(self, x, name):
        self.label = name

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(out, Named) and not hasattr(out, "label"):
            out.label = getattr(args[0], "label", "?")
        return out


t = Named([[1.0, 2.0], [3.0, 4.0]], "speed")
print(type(t + 1).__name__, (t * 2).sum(0).label, t.as_subclass(torch.Tensor).mean())
print(isinstance(t, torch.Tensor), type(t.detach()).__name__, type(torch.stack([t, t])).__name__)


class Counter(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


with Counter() as counter:
    torch.ones(2).exp().sum()
print(counter.seen)


def scale(x, by):
    if has_torch_function((x,)):
        return handle_torch_function(scale, (x,), x, by)
    return x * by


@implements(scale)
def _(x, by):
    return Unit(x.data * by, x.unit)


print(scale(Unit([2.0], "kg"), 3), scale(torch.ones(1), 3))


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3, 3 * x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        x, slope = ctx.saved_tensors
        return g * 3 * x**2


x = torch.randn(3, dtype=torch.double, requires_grad=True)
print(torch.autograd.gradcheck(lambda x: Cube.apply(x)[0], (x,)))
print(torch.autograd.gradgradcheck(lambda x: Cube.apply(x)[0], (x,)))
print(torch.func.vmap(torch.func.grad(lambda v: Cube.apply(v)[0]))(torch.arange(3.0)))
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
copy_ = pickle.loads(pickle.dumps(model))
print(torch.equal(copy_[0].weight, model[0].weight), copy_)
buffer = io.BytesIO()
torch.save({"model": model, "names": {"a", "b"}, "shape": torch.Size([2, 3])}, buffer)
buffer.seek(0)
loaded = torch.load(buffer, weights_only=False)
print(type(loaded["model"]).__name__, sorted(loaded["names"]), loaded["shape"])
buffer.seek(0)
try:
    torch.load(buffer)
except pickle.UnpicklingError as error:
    print("weights_only" in str(error).lower() or "Weights only" in str(error))
