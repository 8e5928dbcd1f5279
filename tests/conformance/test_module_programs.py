"""Short programs around modules on both libraries: the same results, warnings and errors."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

Program = Callable[[Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(f: Program) -> Program:
    PROGRAMS[f.__name__] = f
    return f


def told(f: Callable[[], Any]) -> Any:
    """What a call returns, or the class and the text of its error."""
    try:
        return f()
    except Exception as error:
        text = str(error).replace("adjoint.", "torch.").replace("torch.Tensor", "Tensor")
        return type(error).__name__, text


def plain(value: Any) -> Any:
    """A result with arrays for tensors and names for classes."""
    if isinstance(value, ad.Tensor | torch.Tensor):
        return np.array(value.detach().tolist(), dtype=np.float64), str(value.dtype)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return type(value).__name__


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key in ours:
            same(ours[key], theirs[key])
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif isinstance(ours, tuple):
        np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-5, atol=1e-6)
        assert ours[1] == theirs[1]
    else:
        assert ours == theirs


def outcome(f: Program, t: Any) -> Any:
    t.manual_seed(7)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = told(lambda: f(t))
    # The links in warnings differ, their classes and beginnings do not.
    return [plain(result), [[w.category.__name__, str(w.message)[:60]] for w in caught]]


# -- hooks ---------------------------------------------------------------------------------------


@program
def hooks_of_every_kind(t: Any) -> Any:
    seen: list[Any] = []
    m = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Tanh())
    m.register_forward_pre_hook(lambda mod, a: seen.append(["pre", len(a)]))
    m.register_forward_pre_hook(
        lambda mod, a, k: seen.append(["pre kw", sorted(k)]), with_kwargs=True, prepend=True
    )
    m.register_forward_hook(lambda mod, a, o: o * 2)
    m.register_forward_hook(lambda mod, a, k, o: seen.append(["kw", o]), with_kwargs=True)
    m[0].register_full_backward_hook(lambda mod, gi, go: seen.append(["bw", gi, go]))
    m[1].register_full_backward_pre_hook(lambda mod, go: (go[0] * 3,))
    x = t.ones(1, 2, requires_grad=True)
    out = m(x)
    out.sum().backward()
    return [seen, out, x.grad, m[0].weight.grad]


@program
def hooks_on_all_modules(t: Any) -> Any:
    from importlib import import_module

    module = import_module(t.nn.Module.__module__)
    seen: list[Any] = []
    handles = [
        module.register_module_forward_pre_hook(lambda m, a: seen.append(type(m).__name__)),
        module.register_module_forward_hook(
            lambda m, a, k, o: seen.append([type(m).__name__, o]), with_kwargs=True
        ),
        module.register_module_full_backward_hook(lambda m, gi, go: seen.append(["bw", gi, go])),
        module.register_module_full_backward_pre_hook(lambda m, go: seen.append(["pre", go])),
        module.register_module_parameter_registration_hook(
            lambda m, name, p: seen.append(["parameter", name])
        ),
        module.register_module_buffer_registration_hook(
            lambda m, name, p: seen.append(["buffer", name])
        ),
        module.register_module_module_registration_hook(
            lambda m, name, p: seen.append(["module", name])
        ),
    ]
    try:
        m = t.nn.Sequential(t.nn.BatchNorm1d(2), t.nn.Linear(2, 1))
        x = t.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
        m(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    count = len(seen)
    m(x).sum().backward()
    return [seen, len(seen) == count, x.grad]


@program
def an_always_called_hook_after_an_error(t: Any) -> Any:
    class Fails(t.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            raise RuntimeError("no")

    seen: list[Any] = []
    m = Fails()
    m.register_forward_hook(lambda mod, a, o: seen.append(o), always_call=True)
    m.register_forward_hook(lambda mod, a, o: seen.append("never"))

    def complain(mod: Any, a: Any, o: Any) -> Any:
        raise ValueError("as well")

    m.register_forward_hook(complain, always_call=True)
    return [told(lambda: m(t.ones(1))), seen]


@program
def a_named_tuple_passes_backward_hooks(t: Any) -> Any:
    from collections import namedtuple

    Pair = namedtuple("Pair", "a b")

    class Two(t.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any, y: Any) -> Any:
            return Pair(x * 2, y * 3)

    m = Two()
    seen: list[Any] = []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append([gi, go]))
    x, y = t.ones(2, requires_grad=True), t.ones(2)
    out = m(x, y)
    out.a.sum().backward()
    return [type(out).__name__, out.b.requires_grad, seen, x.grad]


@program
def wrong_returns_of_hooks(t: Any) -> Any:
    results = []
    for returned in (lambda gi: gi[:-1], lambda gi: (*gi, None)):
        m = t.nn.Tanh()
        m.register_full_backward_hook(lambda mod, gi, go, r=returned: r(gi))
        x = t.ones(2, requires_grad=True)
        results.append(told(lambda m=m, x=x: m(x).sum().backward()))
    m = t.nn.Linear(1, 1)
    m.register_forward_pre_hook(lambda mod, a, k: 3, with_kwargs=True)
    results.append(told(lambda: m(t.ones(1))))
    m = t.nn.Tanh()
    m.register_full_backward_hook(lambda *a: None)
    results.append(told(lambda: m.register_backward_hook(lambda *a: None)))
    return results


@program
def old_backward_hooks_warn(t: Any) -> Any:
    m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh())
    seen: list[Any] = []
    m.register_backward_hook(lambda mod, gi, go: seen.append(go))
    m(t.ones(1, 2)).sum().backward()
    return seen


# -- state dicts ---------------------------------------------------------------------------------


def net(t: Any) -> Any:
    return t.nn.Sequential(
        OrderedDict(a=t.nn.Linear(2, 3), n=t.nn.BatchNorm1d(3), b=t.nn.Linear(3, 1, bias=False))
    )


@program
def state_dicts_and_their_metadata(t: Any) -> Any:
    m = net(t)
    m.register_buffer("hidden", t.ones(1), persistent=False)
    m.register_buffer("seen", t.ones(1))
    state = m.state_dict(prefix="p.")
    return [state, state._metadata, sorted(dict(m.named_buffers()))]


@program
def loading_and_its_complaints(t: Any) -> Any:
    m = net(t)
    state = m.state_dict()
    partial = {"a.weight": t.zeros(3, 2), "x": t.ones(1), "a.bias.y": t.ones(1)}
    wrong = {**state, "a.weight": t.zeros(2, 2), "n.weight": 3}
    return [
        told(lambda: m.load_state_dict(partial)),
        told(lambda: m.load_state_dict(partial, strict=False)),
        told(lambda: m.load_state_dict(wrong)),
        told(lambda: m.load_state_dict(wrong, strict=False)),
        told(lambda: m.load_state_dict(3)),
        repr(m.load_state_dict(state)),
        m.state_dict(),
    ]


@program
def loading_by_assignment(t: Any) -> Any:
    m, other = net(t), net(t)
    m.a.weight.requires_grad_(False)
    state = other.state_dict()
    before = m.a.weight
    m.load_state_dict(state, assign=True)
    kept = other.state_dict(keep_vars=True)
    m.load_state_dict(kept, assign=True)
    return [
        m.a.weight is before,
        m.a.weight is other.a.weight,
        m.a.weight.requires_grad,
        m.a.bias.requires_grad,
        m.a.weight,
    ]


@program
def loading_by_swapping(t: Any) -> Any:
    future = __import__(t.__name__ + ".__future__", fromlist=["x"])
    m, other = net(t), net(t)
    before = m.a.weight
    future.set_swap_module_params_on_conversion(True)
    try:
        m.load_state_dict(other.state_dict())
        m.double()
    finally:
        future.set_swap_module_params_on_conversion(False)
    future.set_overwrite_module_params_on_conversion(True)
    try:
        same_before = m.a.weight is before
        m.float()
        same_after = m.a.weight is before
    finally:
        future.set_overwrite_module_params_on_conversion(False)
    return [same_before, same_after, m.a.weight, before]


@program
def state_dict_hooks(t: Any) -> Any:
    m = net(t)
    seen: list[Any] = []
    m.register_state_dict_pre_hook(lambda mod, prefix, keep: seen.append([prefix, keep]))
    m.a.register_state_dict_post_hook(lambda mod, s, prefix, meta: s.pop(prefix + "bias"))
    m.register_load_state_dict_pre_hook(lambda mod, s, prefix, *rest: s.pop("x", None) and None)
    m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
    state = told(m.state_dict)
    m.a._state_dict_hooks.clear()
    m.a._register_state_dict_hook(lambda mod, s, prefix, meta: None)
    state2 = m.state_dict()
    state2["x"] = t.ones(1)
    return [state, told(lambda: repr(m.load_state_dict(state2))), seen]


@program
def extra_state(t: Any) -> Any:
    class With(t.nn.Module):  # type: ignore[name-defined,misc]
        count = 5

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    m = t.nn.Sequential(With(), t.nn.Linear(1, 1))
    state = m.state_dict()
    state["0._extra_state"] = {"count": 9}
    m.load_state_dict(state)
    state.pop("0._extra_state")
    return [m[0].count, told(lambda: m.load_state_dict(state)), list(m.state_dict())]


@program
def old_batch_norm_files(t: Any) -> Any:
    n = t.nn.BatchNorm1d(2)
    state = n.state_dict()
    del state["num_batches_tracked"]
    first = told(lambda: repr(n.load_state_dict(state)))
    state._metadata[""]["version"] = 1
    return [first, repr(n.load_state_dict(state)), n.num_batches_tracked]


@program
def prefixes(t: Any) -> Any:
    from importlib import import_module

    utils = import_module(t.nn.__name__ + ".modules.utils")
    state = t.nn.DataParallel(net(t)).state_dict()
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    return [state, state._metadata, utils._pair(3), utils._reverse_repeat_tuple((1, 2), 2)]


# -- the tree, attributes, conversion ------------------------------------------------------------


@program
def attributes_and_their_errors(t: Any) -> Any:
    m = net(t)
    m.x = 3
    m.register_buffer("b2", t.ones(1))
    return [
        told(lambda: setattr(m, "a", 3)),
        told(lambda: setattr(m.a, "weight", 3)),
        told(lambda: setattr(m.a, "weight", t.nn.ReLU()))[0],
        told(lambda: setattr(m.a, "weight", t.ones(3, 2))),
        told(lambda: setattr(m, "b2", 3)),
        told(lambda: m.register_buffer("x", t.ones(1))),
        told(lambda: m.register_parameter("p.q", None)),
        told(lambda: m.register_parameter("", None)),
        told(lambda: m.add_module("x", t.nn.ReLU())),
        told(lambda: m.add_module("y", 3)),
        told(lambda: m.add_module(3, t.nn.ReLU())),
        told(lambda: m.nothing),
        told(lambda: delattr(m, "nothing")),
        told(lambda: t.nn.Module(3)),
        told(lambda: t.nn.Module(q=3)),
        told(lambda: t.nn.Module()(1)),
        told(lambda: m.train(3)),
        told(lambda: m.register_parameter("z", t.ones(1, requires_grad=True) * 2)),
        [name for name in dir(m) if name in ("a", "b2", "x", "0")],
    ]


@program
def paths_in_the_tree(t: Any) -> Any:
    m = t.nn.Sequential(t.nn.Sequential(t.nn.Linear(2, 2)))
    m.x = 3
    m.set_submodule("0.0", t.nn.ReLU())
    m.set_submodule("0.new", t.nn.Tanh())
    m.get_submodule("0").register_buffer("buf", t.ones(2))
    return [
        repr(m),
        told(lambda: m.set_submodule("0.q.r", t.nn.ReLU())),
        told(lambda: m.set_submodule("", t.nn.ReLU())),
        told(lambda: m.set_submodule("q", 3)),
        told(lambda: m.set_submodule("x", t.nn.ReLU())),
        told(lambda: m.set_submodule("z", t.nn.ReLU(), strict=True)),
        told(lambda: m.get_submodule("x")),
        told(lambda: m.get_parameter("x")),
        told(lambda: m.get_parameter("0.p")),
        told(lambda: m.get_buffer("x")),
        m.get_buffer("0.buf"),
    ]


@program
def conversions(t: Any) -> Any:
    m = net(t)
    m(t.ones(4, 2)).sum().backward()
    holder = m.a.weight
    m.double()
    result = [m.a.weight is holder, m.a.weight.grad.clone(), str(m.n.num_batches_tracked.dtype)]
    m.to(t.float16).to("cpu", t.float32).to(t.ones(1, dtype=t.float64), non_blocking=True)
    m.to(device="cpu", dtype=t.bfloat16).float().type(t.float64)
    result += [str(m.n.num_batches_tracked.dtype), told(lambda: m.to(t.int32))]
    m.to_empty(device="cpu")
    c = t.nn.Conv2d(2, 3, 2).to(memory_format=t.channels_last)
    return [*result, tuple(m.a.weight.shape), c.weight.stride()]


@program
def copies_and_pickles(t: Any) -> Any:
    m = net(t)
    m.a.register_forward_pre_hook(_hook)
    twin = copy.deepcopy(m)
    back = pickle.loads(pickle.dumps(m))
    with t.no_grad():
        twin.a.weight.add_(1)
    x = t.ones(2, 2)
    return [m.eval()(x), back.eval()(x), twin.eval()(x), len(back.a._forward_pre_hooks)]


def _hook(module: Any, args: Any) -> None:
    pass


@program
def a_tensor_of_a_subclass_as_parameter(t: Any) -> Any:
    class Mine(t.Tensor):  # type: ignore[name-defined,misc]
        pass

    p = t.nn.Parameter(t.ones(2).as_subclass(Mine))
    m = t.nn.Module()
    m.p = p
    return [type(p).__name__, isinstance(p, t.nn.Parameter), len(list(m.parameters()))]


@program
def swapped_tensors(t: Any) -> Any:
    a, b = t.zeros(2, dtype=t.float64), t.nn.Parameter(t.ones(3))
    b.note = "b"
    b.grad = t.full((3,), 2.0)
    t.utils.swap_tensors(a, b)
    return [type(a).__name__, a, a.note, a.grad, a.requires_grad, type(b).__name__, b, b.grad]


# -- containers ----------------------------------------------------------------------------------


@program
def sequential_as_a_list(t: Any) -> Any:
    s = t.nn.Sequential(t.nn.ReLU(), t.nn.Tanh())
    s2 = s + t.nn.Sequential(t.nn.ELU())
    s2 += s
    s2.insert(1, t.nn.GELU())
    s2.insert(-1, t.nn.SELU())
    popped = s2.pop(0)
    del s2[1:3]
    s3 = 2 * s
    s3 *= 2
    named = t.nn.Sequential(OrderedDict(x=t.nn.ReLU(), y=t.nn.Tanh(), z=t.nn.ELU()))
    del named[0]
    return [
        repr(s2),
        repr(popped),
        repr(s3),
        repr(s * 2),
        repr(s3[1:3]),
        repr(named),
        told(lambda: s * 0),
        told(lambda: s * "x")[0],
        told(lambda: s + 3)[0],
        told(lambda: s[5]),
        told(lambda: s.insert(9, t.nn.ReLU())),
        told(lambda: t.nn.Sequential(3)),
    ]


@program
def lists_and_dicts_of_modules(t: Any) -> Any:
    listed = t.nn.ModuleList([t.nn.ReLU(), t.nn.ReLU()])
    listed.append(t.nn.Tanh()).extend([t.nn.ELU()])
    listed += [t.nn.GELU()]
    listed.insert(1, t.nn.SELU())
    del listed[0]
    d = t.nn.ModuleDict({"b": t.nn.ReLU(), "a": t.nn.Tanh()})
    d.update([["c", t.nn.ELU()]])
    d.update(t.nn.ModuleDict({"z": t.nn.ReLU()}))
    popped = d.pop("b")
    return [
        repr(listed),
        repr(listed[1:]),
        repr(listed + t.nn.ModuleList([t.nn.ReLU()])),
        repr(d),
        list(d.keys()),
        "a" in d,
        repr(popped),
        told(lambda: t.nn.ModuleList(3)),
        told(lambda: t.nn.ModuleDict(3)),
        told(lambda: t.nn.ModuleDict([3])),
        told(lambda: t.nn.ModuleDict([(1, 2, 3)])),
        told(lambda: t.nn.ModuleDict({"a": 3})),
    ]


@program
def lists_and_dicts_of_parameters(t: Any) -> Any:
    listed = t.nn.ParameterList([t.ones(2), 3, "x"])
    listed.append(t.nn.Parameter(t.zeros(1)))
    listed[0] = t.full((2,), 5.0)
    listed += [t.ones(1)]
    d = t.nn.ParameterDict({"b": t.ones(1), "a": t.zeros(2)})
    d["n"] = 4
    e = d | t.nn.ParameterDict({"q": t.ones(3)})
    d |= t.nn.ParameterDict({"r": t.ones(1)})
    return [
        repr(listed),
        len(list(listed.parameters())),
        listed[1],
        repr(listed[:2]),
        repr(d),
        list(e.keys()),
        list(reversed(e)),
        e.setdefault("w", t.ones(1)),
        e.popitem()[0],
        e.get("nothing", 7),
        repr(e.fromkeys(["u", "v"], 1)),
        list(e.copy()),
        told(lambda: listed(1)),
        told(lambda: t.nn.ParameterDict({3: 3})),
        told(lambda: t.nn.ParameterDict(3)),
        told(lambda: t.nn.ParameterDict([3])),
        told(lambda: t.nn.ParameterDict([(1, 2, 3)])),
        told(lambda: t.nn.ParameterList(3)),
    ]


@program
def the_old_container(t: Any) -> Any:
    return repr(t.nn.Container(a=t.nn.ReLU()))


# -- lazy modules --------------------------------------------------------------------------------


@program
def lazy_modules(t: Any) -> Any:
    m = t.nn.Sequential(t.nn.LazyLinear(3), t.nn.LazyBatchNorm1d(), t.nn.LazyLinear(2, bias=False))
    shown = repr(m)
    p = m[0].weight
    results = [
        told(lambda: p.shape),
        told(lambda: p + 1)[0],
        told(p.share_memory_),
        repr(p),
        m[0].has_uninitialized_params(),
        list(m.state_dict()),
    ]
    m.double()
    out = m(t.ones(4, 5, dtype=t.float64))
    return [shown, *results, repr(m), out, type(p).__name__, m[0].weight is p, m.state_dict()]


@program
def lazy_modules_take_shapes_from_files(t: Any) -> Any:
    lazy, made = t.nn.LazyLinear(3), t.nn.Linear(4, 3)
    lazy.load_state_dict(made.state_dict())
    fresh = t.nn.LazyLinear(3).state_dict()
    return [lazy.weight, told(lambda: made.load_state_dict(fresh))[0], lazy(t.ones(4))]


@program
def lazy_instance_norms(t: Any) -> Any:
    n = t.nn.LazyInstanceNorm2d()
    out = n(t.arange(24.0).reshape(1, 2, 3, 4))
    return [repr(n), out, n.state_dict()]


# -- utils ---------------------------------------------------------------------------------------


@program
def total_norms_and_clipping(t: Any) -> Any:
    results: list[Any] = []
    for kind in (1.0, 2.0, float("inf"), 3.0):
        m = net(t)
        m(t.sin(t.arange(8.0)).reshape(4, 2)).pow(3).sum().backward()
        gradients = [p.grad for p in m.parameters()]
        results.append(t.nn.utils.get_total_norm(gradients, kind))
        results.append(t.nn.utils.clip_grad_norm_(m.parameters(), 0.1, kind))
        results += gradients
    t.nn.utils.clip_grads_with_norm_(m.parameters(), 0.01, t.tensor(2.0))
    t.nn.utils.clip_grad_value_(m.parameters(), 1e-4)
    results += [p.grad for p in m.parameters()]
    results.append(t.nn.utils.clip_grad_norm([m.a.weight], 1.0))
    m.a.weight.grad.fill_(float("nan"))
    results.append(
        told(lambda: t.nn.utils.clip_grad_norm_(m.parameters(), 1.0, error_if_nonfinite=True))[0]
    )
    return results


@program
def fused_layers(t: Any) -> Any:
    conv, norm = t.nn.Conv2d(2, 3, 2).eval(), t.nn.BatchNorm2d(3)
    norm(t.arange(24.0).reshape(2, 3, 2, 2))
    fused = t.nn.utils.fusion.fuse_conv_bn_eval(conv, norm.eval())
    line, norm1 = t.nn.Linear(2, 3, bias=False).eval(), t.nn.BatchNorm1d(3)
    norm1(t.arange(6.0).reshape(2, 3))
    fused_line = t.nn.utils.fuse_linear_bn_eval(line, norm1.eval())
    x = t.ones(1, 2, 3, 3)
    return [
        fused.weight,
        fused.bias,
        (fused(x) - norm(conv(x))).abs().max() < 1e-5,
        fused_line.weight,
        fused_line.bias,
        told(lambda: t.nn.utils.fuse_conv_bn_eval(conv.train(), norm))[0],
    ]


@program
def parametrizations(t: Any) -> Any:
    parametrize = t.nn.utils.parametrize

    class Symmetric(t.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, X: Any) -> Any:
            return X.triu() + X.triu(1).mT

        def right_inverse(self, A: Any) -> Any:
            return A.triu()

    class Double(t.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, X: Any) -> Any:
            return 2 * X

    m = t.nn.Linear(3, 3)
    parametrize.register_parametrization(m, "weight", Symmetric())
    m.weight = t.arange(9.0).reshape(3, 3)
    parametrize.register_parametrization(m, "weight", Double())
    parametrize.register_parametrization(m, "bias", Double())
    with parametrize.cached():
        once = m.weight is m.weight
    m(t.ones(1, 3)).sum().backward()
    result = [
        repr(m),
        m.state_dict(),
        once,
        m.weight,
        m.parametrizations.weight.original.grad,
        parametrize.is_parametrized(m, "bias"),
        parametrize.type_before_parametrizations(m).__name__,
        type(copy.deepcopy(m)).__name__,
        told(lambda: pickle.dumps(m))[0],
        told(lambda: setattr(m, "weight", t.ones(3, 3))),
        told(lambda: parametrize.register_parametrization(m, "nothing", Double()))[0],
    ]
    parametrize.remove_parametrizations(m, "bias", leave_parametrized=False)
    parametrize.remove_parametrizations(m, "weight")
    return [*result, repr(m), m.state_dict(), told(lambda: _remove_again(parametrize, m))[0]]


def _remove_again(parametrize: Any, m: Any) -> Any:
    return parametrize.remove_parametrizations(m, "weight")


@program
def orthogonal_matrices(t: Any) -> Any:
    results: list[Any] = []
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3)):
        for kind in ("matrix_exp", "cayley", "householder"):
            for trivial in (True, False):
                size = float(np.prod(shape))
                values = t.sin(t.arange(size) ** 2 * 3 + 1).reshape(shape)
                m = t.nn.Module()
                m.weight = t.nn.Parameter(values)
                t.nn.utils.parametrizations.orthogonal(
                    m, "weight", kind, use_trivialization=trivial
                )
                (m.weight * values).sum().backward()
                original = m.parametrizations.weight.original
                results += [m.weight, original, original.grad]
                results.append(told(lambda m=m: setattr(m, "weight", m.weight.detach())) is None)
                results.append(m.weight)
    return [*results, told(lambda: t.nn.utils.parametrizations.orthogonal(m, "weight", "x"))]


@program
def weight_norm_new_and_old(t: Any) -> Any:
    results: list[Any] = []
    for dim in (0, 1, None, -1):
        m = t.nn.utils.parametrizations.weight_norm(t.nn.Linear(3, 2), dim=dim)
        m(t.ones(1, 3)).sum().backward()
        results += [m.state_dict(), m.weight, [p.grad for p in m.parameters()]]
    old = t.nn.utils.weight_norm(t.nn.Linear(3, 2))
    old(t.ones(1, 3)).sum().backward()
    results += [repr(old), old.state_dict(), old.weight_g.grad, old.weight_v.grad]
    new = t.nn.utils.parametrizations.weight_norm(t.nn.Linear(3, 2))
    results += [repr(new.load_state_dict(old.state_dict())), new.weight]
    t.nn.utils.remove_weight_norm(old)
    return [*results, old.state_dict(), told(lambda: t.nn.utils.remove_weight_norm(old))]


@program
def spectral_norm_new_and_old(t: Any) -> Any:
    m = t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(4, 3))
    m(t.ones(1, 4)).sum().backward()
    first = [m.state_dict(), m.eval().weight, m.parametrizations.weight.original.grad]
    old = t.nn.utils.spectral_norm(t.nn.Conv2d(2, 3, 2), n_power_iterations=2)
    old(t.ones(1, 2, 3, 3)).sum().backward()
    state = old.state_dict()
    second = [state, state._metadata, old.weight, old.weight_orig.grad]
    old.load_state_dict(state)
    t.nn.utils.remove_spectral_norm(old)
    return [
        *first,
        *second,
        old.state_dict(),
        told(lambda: t.nn.utils.remove_spectral_norm(old)),
        told(lambda: t.nn.utils.parametrizations.spectral_norm(m, "nothing"))[0],
        told(lambda: t.nn.utils.spectral_norm(t.nn.Linear(1, 1), n_power_iterations=0)),
    ]


@program
def pruning(t: Any) -> Any:
    from importlib import import_module

    prune = import_module(t.nn.__name__ + ".utils.prune")
    m = net(t)
    prune.l1_unstructured(m.a, "weight", amount=2)
    prune.random_unstructured(m.a, "weight", amount=0.5)
    prune.ln_structured(m.b, "weight", amount=1, n=2, dim=1)
    prune.identity(m.a, "bias")
    prune.random_structured(m.a, "weight", amount=1, dim=0)
    c = t.nn.Linear(4, 4)
    prune.custom_from_mask(c, "weight", mask=t.eye(4))
    g = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 2))
    prune.global_unstructured(
        [(g[0], "weight"), (g[1], "weight")], prune.L1Unstructured, amount=0.4
    )
    m(t.ones(4, 2)).sum().backward()
    result = [m.state_dict(), m.a.weight_orig.grad, c.weight, g.state_dict(), prune.is_pruned(m)]
    prune.remove(m.a, "weight")
    return [
        *result,
        m.state_dict(),
        told(lambda: prune.remove(m.a, "weight"))[0],
        told(lambda: prune.l1_unstructured(m.a, "weight", amount=-1)),
        told(lambda: prune.l1_unstructured(m.a, "weight", amount="x")),
        told(lambda: prune.l1_unstructured(m.a, "weight", amount=100)),
        told(lambda: prune.l1_unstructured(m.a, "weight", amount=1.5)),
        told(lambda: prune.random_structured(c, "bias", 1, 0)),
        told(lambda: prune.random_structured(c, "weight", 1, 7))[0],
    ]


@program
def skipping_the_initial_values(t: Any) -> Any:
    m = t.nn.utils.skip_init(t.nn.Linear, 2, 3)
    return [repr(m), tuple(m.weight.shape), told(lambda: t.nn.utils.skip_init(t.nn.ReLU))]


# -- layers --------------------------------------------------------------------------------------


@program
def adaptive_softmax(t: Any) -> Any:
    m = t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True)
    x = t.sin(t.arange(48.0)).reshape(6, 8).requires_grad_()
    out, loss = m(x, t.tensor([0, 3, 4, 9, 10, 19]))
    loss.backward()
    alone = m(x[0], t.tensor(5))
    return [
        out,
        loss,
        x.grad,
        [p.grad for p in m.parameters()],
        alone,
        m.log_prob(x),
        m.predict(x),
        told(lambda: m(x, t.tensor([0, 1, 2, 3, 4, 20]))),
        told(lambda: m(x, t.tensor([0]))),
        told(lambda: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 4])),
        told(lambda: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [])),
    ]


@program
def gradients_of_convolutions(t: Any) -> Any:
    g = t.nn.grad
    x, w = t.sin(t.arange(32.0)).reshape(1, 2, 4, 4), t.cos(t.arange(24.0)).reshape(3, 2, 2, 2)
    y = t.ones(1, 3, 3, 3)
    return [
        g.conv2d_input(x.shape, w, y),
        g.conv2d_weight(x, w.shape, y),
        g.conv1d_input((1, 2, 4), w[..., 0], t.ones(1, 3, 2), stride=2),
        g.conv1d_weight(x[..., 0], (3, 2, 2), t.ones(1, 3, 5), padding=1),
    ]


@program
def synchronised_norms_in_one_process(t: Any) -> Any:
    m = t.nn.SyncBatchNorm.convert_sync_batchnorm(net(t))
    return [repr(m), m.eval()(t.ones(2, 2)), m.state_dict()]


@program
def arguments_of_creation(t: Any) -> Any:
    return [
        t.nn.factory_kwargs({"device": "cpu"}),
        told(lambda: t.nn.factory_kwargs({"x": 1})),
        told(lambda: t.nn.factory_kwargs({"device": 1, "factory_kwargs": {"device": 2}})),
        t.nn._reduction.get_enum("sum"),
        told(lambda: t.nn._reduction.get_enum("x")),
        int(t.nn.attention.SDPBackend.MATH),
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_it_gives_on_torch(name: str) -> None:
    same(outcome(PROGRAMS[name], ad), outcome(PROGRAMS[name], torch))
