"""Random chains of views, conjugates, changes and functions beside torch: every tensor after every
line (values, dtype, shape, conjugate and negative bits), then gradients, or the chain compiled.
"""

from __future__ import annotations

import copy
import io
import pickle
import random
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")

VIEWS = """
t.conj(); t.conj(); t.mH; t.mT; t.T; t[0:1]; t[:, 1:]; t[..., 0]; t.real; t.imag; t._neg_view()
t.view_as(t); t.detach(); t.reshape(-1); t.unsqueeze(0); t.diagonal(); t.as_strided((2,), (1,))
t.permute(*range(t.ndim)[::-1]); t.unfold(0, 2, 1); t.flatten(); t.squeeze(); t[[0, 1]]; t[None]
t.adjoint(); torch.view_as_real(t); t.swapaxes(0, -1); t.narrow(0, 0, 1); torch.atleast_2d(t)
t.view(-1); torch.conj(t); t.select(-1, 0); t.tensor_split(torch.tensor([1]))[0]
"""
FUNCTIONS = """
t.clone(); t.contiguous(); t.resolve_conj(); t.resolve_neg(); t.conj_physical(); t * u; t + u
t - u.conj(); t @ u; t @ t.mH; u.mH @ t; t.sum(0); t.cumsum(0); t.abs(); t.exp(); t.neg(); t ** 2
torch.cat([t, t.conj()]); torch.stack([t, t]); torch.where(t.abs() > 1, t, u); torch.fft.fft(t)
torch.linalg.inv(definite(t)); torch.linalg.solve(definite(t), t); torch.linalg.det(t)
torch.linalg.cholesky(definite(t)); torch.linalg.pinv(t); torch.linalg.svdvals(t)
torch.linalg.lu_solve(*torch.linalg.lu_factor(definite(t)), t, left=False); torch.fft.ifft(t.conj())
torch.einsum('ij,kj->ik', t, u.conj()); torch.outer(t.flatten(), u.flatten().conj())
torch.vdot(t.flatten(), u.flatten()); torch.dot(t.flatten(), u.flatten()); torch.addmm(t, u, u.mH)
t.to(torch.complex64); t.index_select(0, torch.tensor([0, 0])); t.flip(0); t.tril(); t.mean()
t.masked_fill(t.abs() > 1, 2); torch.complex(t.real, t.imag); t.prod(0); t.repeat(2, 1); t.sgn()
torch.zeros_like(t) + t; torch.tensordot(t, u, 1); torch.nn.functional.linear(t, u); t.positive()
t.repeat_interleave(torch.tensor([2]), 0); torch.lerp(t, u, 0.25); torch.linalg.vecdot(t, u)
torch.vmap(lambda x: x.conj() * 2)(t); torch.vmap(lambda x: x.conj())(t)
torch.vmap(lambda x, y: (x.conj() * y).sum())(t, u); torch.kron(t, u.conj()); t.cumprod(-1)
torch.add(t, u, out=torch.empty_like(t + u).conj()); torch.mv(t, u[0].conj()); t.conj().var()
torch.mm(t, u, out=torch.zeros_like(t @ u).conj()); torch.linalg.matrix_exp(t)
t.scatter_add(0, i, u); torch.cat([t, u], out=torch.empty_like(torch.cat([t, u])).conj())
torch.linalg.norm(t); t.diff(dim=0)
torch.mul(t.conj(), u, out=torch.empty_like(t * u)._neg_view())
torch.linalg.multi_dot([t, u.mH, t]); torch.baddbmm(t[None], u[None], t.mH[None])
torch.addr(t, t[0], t[0].conj()); t.imag.max(); torch.einsum('ij,ij->', t, u.conj())
torch.einsum('ij,jk,lk->il', t, u, t.conj()); t.imag.softmax(-1)
torch.func.vjp(lambda x: x.mH @ x, t.detach())[1](u.detach().conj())[0]; t.imag.sort()[0]; t.H
t.data.conj(); torch.func.grad(lambda x: (x.conj() * x).real.sum())(t.detach())
t.index_put((i[0],), u[:1].conj())
torch.view_as_complex(torch.stack([t.imag, t.real], -1)._neg_view())
t.conj().imag.to(torch.int64)
torch.func.jvp(lambda x: x.conj().imag.exp(), (fresh(t),), (fresh(u),))[1]
"""
OUTSIDE = """
saved(t); pickled(t); copy.deepcopy(t.detach()); torch.from_numpy(t.numpy(force=True))
torch.tensor(t.tolist()); torch.nn.Parameter(t.detach()); torch.tensor([t.flatten()[0].item()])
"""
# w is a copy of another tensor, i are positions.
CHANGES = """
t.mul_(2); t.neg_(); t.copy_(w); t.copy_(w.conj()); t.fill_(3); t.zero_(); t[0] = 5; t[0] = w[0]
t.conj_physical_(); t.mul_(t.clone()); torch.neg(t, out=t); t.sub_(w.real); t.imag.mul_(2)
t.masked_fill_(t.abs() > 1, 2); t.index_add_(0, torch.tensor([0]), w[:1]); t.addmm_(w, w)
t.conj().add_(1j); t.mH.mul_(2); t.conj().imag.add_(1); t.div_(2); t.lerp_(w, 0.5); t.tril_()
t[t.abs() > 1] = 1; t.real.zero_(); t.conj()[0] = w[0]; t.put_(torch.tensor([0]), w.flatten()[:1])
t.real.copy_(w.imag); t.index_fill_(0, torch.tensor([0]), 2); t.cumsum_(0); t.addcmul_(w, w)
t.mul_(t.conj()); t.add_(t.mH); t.mH.add_(t); t.copy_(t.conj()); t.imag.copy_(t.real)
t.conj().mul_(t); t.imag.mul_(t.conj().imag); torch.exp(fresh(t), out=t.conj())
t.scatter_(0, i, w.conj()); t.conj().pow_(2)
t.conj().index_put_((i[0],), w[0].conj(), accumulate=True)
t.masked_scatter_(t.abs() > 1, fresh(t).conj()); t.diagonal().conj().fill_(1j); t.conj().imag.exp_()
t._neg_view().conj().copy_(w); t.transpose_(0, 1); torch.mm(fresh(t), fresh(t), out=t.mH)
torch.cat([fresh(t[:1]), fresh(t[1:])], out=t.conj()); t.data.mul_(2); t.unsqueeze_(0)
torch.where(t.abs() > 1, fresh(t), -fresh(t), out=t.conj()); t.conj()[..., :1] = 2j
t.conj().imag.clamp_(0, 1)
"""


def listed(table: str) -> list[str]:
    return [text.strip() for line in table.strip().splitlines() for text in line.split("; ")]


KINDS = [listed(table) for table in (VIEWS, FUNCTIONS, OUTSIDE, CHANGES)]
ODDS = (0.35, 0.3, 0.05, 0.3)


class Line(NamedTuple):
    text: str
    t: int
    u: int

    def run(self, library: Any, pool: list[Any]) -> None:
        given = {**names(library), "t": pool[self.t], "u": pool[self.u]}
        if self.text in KINDS[-1]:
            exec(self.text, {**given, "w": pool[self.u].detach().clone()})
        else:
            pool.append(eval(self.text, given))


def names(library: Any) -> dict[str, Any]:
    def saved(t: Any) -> Any:
        file = io.BytesIO()
        library.save(t.detach(), file)
        file.seek(0)
        return library.load(file)

    def definite(t: Any) -> Any:
        return t @ t.mH + 3 * library.eye(t.shape[-1], dtype=t.dtype)

    return {
        "torch": library, "copy": copy, "saved": saved, "definite": definite,
        "i": library.tensor([[0, 0]]), "fresh": lambda t: t.detach().clone(),
        "pickled": lambda t: pickle.loads(pickle.dumps(t.detach())),
    }  # fmt: skip


def start(library: Any) -> list[Any]:
    rows = ([[1 + 2j, 3 - 1j], [0.5j, 2.0]], [[0.5 - 1j, 1 + 1j], [2 + 0.25j, 1 - 1.5j]])
    return [library.tensor(r, dtype=library.complex128) for r in rows]


def facts(t: Any) -> Any:
    return str(t.dtype), tuple(t.shape), t.is_conj(), t.is_neg(), t.requires_grad


def numbers(t: Any) -> Any:
    return np.array(t.detach().resolve_conj().resolve_neg().tolist())


def assert_same(got: Any, want: Any, program: list[Line]) -> None:
    assert facts(got) == facts(want), program
    a, b = numbers(got), numbers(want)
    single = str(want.dtype) in ("torch.complex64", "torch.float32")
    size = np.abs(b[np.isfinite(b)]).max(initial=1.0)
    np.testing.assert_allclose(a, b, 1e-4 if single else 1e-8, 1e-6 * size, True, str(program))


def grown(draw: random.Random, pools: list[list[Any]]) -> list[Line]:
    """A program of lines that torch runs, run on both, its tensors compared after every line."""
    program: list[Line] = []
    for _ in range(draw.randrange(3, 10)):
        (kind,) = draw.choices(KINDS, ODDS)
        last = len(pools[0]) - 1
        t, u = (draw.choice([draw.randint(0, last), last]) for _ in range(2))
        line = Line(draw.choice(kind), t, u)
        if max(pools[0][t].numel(), pools[0][u].numel()) > 200:
            continue
        errors: list[Exception | None] = []
        for library, pool in zip((torch, ad), pools, strict=True):
            try:
                line.run(library, pool)
                errors.append(None)
            except Exception as error:
                errors.append(error)
        assert (errors[0] is None) == (errors[1] is None), (program, line, errors)
        program += [line] if errors[0] is None else []
        for want, got in zip(*pools, strict=True):
            assert_same(got, want, program)
    return program


@pytest.mark.parametrize("seed", range(40))
def test_chains_have_torchs_values_bits_and_gradients(seed: int) -> None:
    pools = [start(library) for library in (torch, ad)]
    for pool in pools:
        pool[:] = [x.requires_grad_() for x in pool] + [pool[0] * 1]
    program = grown(random.Random(seed), pools)
    found = []
    for library, pool in zip((torch, ad), pools, strict=True):
        total = sum((t.abs() ** 2).sum() for t in pool[2:] if t.requires_grad)
        try:
            found.append(library.autograd.grad(total, pool[:2], allow_unused=True))
        except RuntimeError as error:  # a saved value was changed
            found.append(error)
    if isinstance(found[0], RuntimeError):
        return  # torch counts some changes that change nothing
    for want, got in zip(*found, strict=True):
        assert (got is None) == (want is None), program
        if want is not None:
            np.testing.assert_allclose(numbers(got), numbers(want), 1e-6, 1e-8, True, str(program))


def as_function(program: list[Line]) -> Any:
    """The program as a function of the two tensors it starts with; it returns all of them."""
    body, count = [], 2
    for text, t, u in program:
        change = text in KINDS[-1]
        for name, value in (("t", f"v{t}"), ("u", f"v{u}"), ("w", f"v{u}.detach().clone()")):
            text = re.sub(rf"(?<![.\w]){name}\b", value, text)
        body.append(text if change else f"v{count} = {text}")
        count += not change
    results = ", ".join(f"v{k}" for k in range(count))
    given = names(ad)
    exec("\n    ".join(["def f(v0, v1):", *body, f"return {results}"]), given)
    return given["f"]


@pytest.mark.parametrize("seed", range(40))
def test_compiled_chains_give_what_they_give(seed: int) -> None:
    program = grown(random.Random(1000 + seed), [start(library) for library in (torch, ad)])
    if any(line.text in KINDS[2] for line in program):
        return  # what goes out and comes back is not recorded
    f = as_function(program)
    compiled = ad.compile(f)
    for turned in (False, False, True, True):
        given, again = start(ad), start(ad)
        if turned:
            given[1], again[1] = (p[1].conj_physical().conj() for p in (given, again))
        try:
            wanted = f(*given)
        except RuntimeError:  # a conjugate has no real view
            return
        for got, want in zip(compiled(*again), wanted, strict=True):
            assert_same(got, want, program)
