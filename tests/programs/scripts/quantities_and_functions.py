import torch
from torch.autograd import Function
from torch.autograd import forward_ad as fwAD
from torch.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

HANDLED = {}


def implements(f):
    def deco(g):
        HANDLED[f] = g
        return g

    return deco


class Quantity(torch.Tensor):
    @staticmethod
    def __new__(cls, x, unit="", *a, **k):
        r = torch.as_tensor(x, *a, **k).as_subclass(cls)
        r.unit = unit
        return r

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in HANDLED:
            return HANDLED[func](*args, **kwargs)
        out = super().__torch_function__(func, types, args, kwargs)
        u = [a.unit for a in args if isinstance(a, Quantity) and hasattr(a, "unit")]
        if isinstance(out, Quantity) and not hasattr(out, "unit"):
            out.unit = u[0] if u else ""
        return out

    def __repr__(self):
        return f"{self.as_subclass(torch.Tensor)} {self.unit}"


@implements(torch.mul)
@implements(torch.Tensor.mul)
def mul(a, b):
    o = torch.Tensor.__mul__(torch.Tensor(a), torch.Tensor(b)).as_subclass(Quantity)
    o.unit = f"{getattr(a, 'unit', '')}*{getattr(b, 'unit', '')}"
    return o


d = Quantity([1.0, 2.0], "m")
t = Quantity([2.0, 4.0], "s")
print(
    d + d,
    torch.mul(d, t),
    (d * 2).unit,
    type(d.sum()).__name__,
    type(torch.stack([d, d])).__name__,
    d[0],
    isinstance(d, torch.Tensor),
)


class Wrapped:
    def __init__(s, v):
        s.v = v

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls(func(*[a.v if isinstance(a, cls) else a for a in args], **(kwargs or {})))

    def __repr__(s):
        return f"Wrapped({s.v})"


print(torch.add(Wrapped(torch.ones(2)), 1), torch.exp(Wrapped(torch.zeros(2))))


class Log(torch.overrides.TorchFunctionMode):
    def __init__(s):
        s.calls = []

    def __torch_function__(s, func, types, args=(), kwargs=None):
        s.calls.append(torch.overrides.resolve_name(func))
        return func(*args, **(kwargs or {}))


with Log() as log:
    (torch.ones(2).sin() + 1).sum()


class Cube(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3, 3 * x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])
        ctx.save_for_forward(inputs[0])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        x, _dx = ctx.saved_tensors
        return g * 3 * x**2

    @staticmethod
    def jvp(ctx, t):
        (x,) = (
            ctx.saved_tensors
            if 0
            else (ctx.saved_for_forward[0],)
            if hasattr(ctx, "saved_for_forward")
            else (None,)
        )
        return 3 * x**2 * t, None


x = torch.randn(
    3, dtype=torch.double, requires_grad=True, generator=torch.Generator().manual_seed(0)
)
y, _ = Cube.apply(x)
(g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
(gg,) = torch.autograd.grad(g.sum(), x)
print(g - 3 * x**2, gg - 6 * x)
print(
    torch.func.vmap(lambda v: Cube.apply(v)[0])(x.detach()),
    torch.func.grad(lambda v: Cube.apply(v)[0].sum())(x.detach()),
)


class Clamp(Function):
    @staticmethod
    def forward(ctx, x, lo, hi):
        ctx.lohi = (lo, hi)
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x.clamp(lo, hi)

    @staticmethod
    def backward(ctx, g):
        print("needs", ctx.needs_input_grad)
        (x,) = ctx.saved_tensors
        m = (x >= ctx.lohi[0]) & (x <= ctx.lohi[1])
        return g * m, None, None


print(
    torch.autograd.gradcheck(lambda v: Clamp.apply(v, -0.5, 0.5), (x,))
    if 0
    else Clamp.apply(x, -0.5, 0.5).sum().backward(),
    x.grad,
)


class InP(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


z = torch.ones(2, requires_grad=True)
w = z.clone()
print(InP.apply(w).sum().backward(), z.grad, w)
with fwAD.dual_level():
    dd = fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
    o = torch.sin(dd) * dd
    print(fwAD.unpack_dual(o))


def f(a, b):
    return (a @ b).tanh().sum()


A = torch.randn(2, 3, generator=torch.Generator().manual_seed(2))
B = torch.randn(3, 2, generator=torch.Generator().manual_seed(3))


print(
    jacobian(lambda a: (a @ B).tanh(), A).shape,
    hessian(lambda a: f(a, B), A).sum(),
    vjp(lambda a: a @ B, A, torch.ones(2, 2))[1],
    jvp(lambda a: a @ B, A, torch.ones_like(A))[1],
    hvp(lambda a: f(a, B), A, torch.ones_like(A))[1].sum(),
    vhp(lambda a: f(a, B), A, torch.ones_like(A))[1].sum(),
)
try:
    q = torch.ones(2, requires_grad=True)
    r = q * 2
    s = r.exp()
    r.add_(1)
    s.sum().backward()
    v = q.exp()
    v.add_(1)
    v.sum().backward()
except RuntimeError as e:
    print(
        "RuntimeError", "modified by an inplace operation" in str(e) or "changed in place" in str(e)
    )
try:
    q.add_(1)
except RuntimeError as e:
    print(str(e)[:70])
with torch.no_grad():
    q.add_(1)
print(q, q.is_leaf, (q * 2).is_leaf, q.detach().requires_grad, torch.is_grad_enabled())


@torch.no_grad()
def nog(a):
    return a * 2


print(nog(q).requires_grad)
with torch.set_grad_enabled(False):
    print((q * 1).requires_grad)
print(
    torch.autograd.grad(
        [q.sum(), (q**2).sum()], [q], grad_outputs=[torch.tensor(1.0), torch.tensor(2.0)]
    ),
    torch.autograd.grad(q.prod(), (q,), is_grads_batched=False),
)
u = torch.ones(2, requires_grad=True)
print(
    torch.autograd.grad((q * 1).sum(), u, allow_unused=True),
    torch.autograd.grad((q * 1).sum(), u, allow_unused=True, materialize_grads=True),
)
