"""Damage saved programs and run them: `python -m tools.fuzz_programs --rounds 20000 --seed 1`.

The digest of each file is made right again, so that what is looked at is how far a program is
believed. `adjoint.compiler.load` may succeed or raise `LoadError`, and what it gave may then raise
anything when it is called and differentiated. A signal, a report of a sanitizer (`--sanitized`), a
call that does not end, or another exception of `load` is a failure: the case is printed, and is
repeated by `--replay SEED/ROUND`. Everything runs in child processes, which limit their memory.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.fuzzing.sanitized import restart

if __name__ == "__main__" and "--sanitized" in sys.argv:
    restart("tools.fuzz_programs")  # a sanitized _core cannot be loaded without its libraries

import adjoint as ad
from adjoint import _core, nn
from adjoint.compiler import load
from adjoint.compiler._fingerprints import content_print
from adjoint.serialization import LoadError
from tools.fuzzing.child import Child, Log
from tools.fuzzing.world import Step

BATCH = 50  # cases of one child
PATIENCE = 5  # seconds for a call; loops of a file may be long, and have to hear Ctrl-C
NUMBERS = (0, 1, -1, 2, 3, 4, 5, 7, 8, 16, 63, 64, 127, 1000, 2**16, 2**31 - 1, 2**31, 2**62,
           -(2**63), 2**63 - 1, -2, -8)  # fmt: skip
OTHERS = (None, True, "", [], {}, 0.5, [1], [0, 0], "float64", "int64")
OPS = sorted(op["full_name"] for op in ad.op_table())
DTYPES = ("float32", "float64", "int64", "int32", "bool", "complex64", "uint8", "float16")
Case = tuple[Callable[..., Any], tuple[Any, ...]]


# --- what is saved, to be damaged -----------------------------------------------------------------
NET = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2, 1))
HEAD = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
TABLE, CELL = nn.Embedding(5, 4), nn.LSTM(4, 3)


def chain(x: Any, n: int) -> Any:
    """A loop, which becomes one instruction."""
    v = x * 0
    for _ in range(n):
        v = v + 0.1 * (x.roll(1, 0) - 2 * x + x.roll(-1, 0))
        x = x + 0.1 * v
    return x, v


def images(x: Any) -> Any:
    """Convolution and pooling."""
    return NET(x).sum()


def classes(x: Any, target: Any) -> Any:
    """Layers, and a loss with indices."""
    return nn.functional.cross_entropy(HEAD(x), target)


def words(index: Any) -> Any:
    """Rows of a table, a recurrent layer, attention."""
    x = TABLE(index)
    out, _ = CELL(x.unsqueeze(1))
    q = out.reshape(1, 1, -1, 3)
    return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).square().sum()


def matrices(a: Any, b: Any) -> Any:
    """Factors, pivots, decompositions."""
    m = a @ a.mT + ad.eye(a.shape[-1], dtype=a.dtype)
    return ad.linalg.solve(m, b).sum() + ad.linalg.svdvals(m).sum() + ad.linalg.det(m)


def arranged(x: Any) -> Any:
    """Views, sums and indices."""
    y = ad.cat([x[1:, ::2], x.flip(0)[:-1, 1::2]], 1)
    top, index = y.max(1)
    z = ad.fft.rfft(y).abs().sum() + y.cumprod(1).sum() + y.diagonal().prod() + y.std(0).sum()
    w = nn.functional.pad(y[None], (1, 2), mode="reflect").unfold(2, 3, 2).sum()
    return z + w + top.sum() + y.gather(1, index[:, None]).sum() + y.sort(1).values[:, 0].sum()


def changed(x: Any) -> Any:
    """In-place operations on what the function has made."""
    y = x.clone()
    y[1:] += x[:-1]
    y[:, 0] *= 2
    return y.tanh_().as_strided((2, 2), (1, 2)).sum() + y.sum(), y


def looped(x: Any) -> Any:
    """Loops that run as an instruction, in one another, some of whose steps run again."""

    def inner(c: Any, row: Any) -> Any:
        (c,) = ad.while_loop(lambda s: s.abs().sum() < 9, lambda s: (s * 1.5 + row,), (c,))
        return c * 0.1, c.sum()

    def outer(c: Any, row: Any) -> Any:
        c, ys = ad.scan(inner, c, x[0] * row)
        c = ad.cond(ys[0] > 9.5, lambda c: c.sin(), lambda c: c * 2 + x[1], (c,))
        return c, ys.sum()

    return ad.scan(outer, x[0], ad.linspace(1, 2, 5), snapshots=2)


def scanned(x: Any, rows: Any) -> Any:
    """Rows, several carries, outputs of which some have no gradient."""

    def step(carry: Any, row: Any) -> Any:
        a, b, n = carry
        a = a * x + row
        return (b, a.tanh(), n + 1), (a > 0, a * b)

    return ad.scan(step, (x, x * 2, 0), rows, reverse=True)[1][1], x.sum()


def chosen(x: Any) -> Any:
    """A branch, and a loop until a condition fails, which keeps few states."""
    y = ad.cond(x.sum() > 0, lambda x: (x * 2, x.sum()), lambda x: (x.exp(), x.prod()), (x,))
    return ad.while_loop(
        lambda s, n: n < 6, lambda s, n: (s * x + y[1], n + 1), (y[0], ad.tensor(0)), snapshots=2
    )[0]


def cases() -> list[Case]:
    """Functions, and arguments for them."""
    grad, double = {"requires_grad": True}, {"dtype": ad.float64}
    return [
        (chain, (ad.linspace(0, 1, 12, **grad), 40)),
        (images, (ad.linspace(0, 1, 144, **grad).reshape(1, 1, 12, 12),)),
        (classes, (ad.linspace(-1, 1, 24).reshape(4, 6), ad.tensor([0, 2, 1, 0]))),
        (words, (ad.tensor([0, 3, 1, 4]),)),
        (matrices, (ad.eye(3, **double, **grad), ad.ones(3, 2, **double))),
        (arranged, (ad.linspace(-1, 2, 30, **grad).reshape(5, 6),)),
        (changed, (ad.linspace(-1, 1, 12, **grad).reshape(3, 4),)),
        (looped, (ad.linspace(-1, 2, 10, **grad).reshape(2, 5),)),
        (scanned, (ad.linspace(-1, 1, 3, **grad), ad.linspace(0, 1, 12, **grad).reshape(4, 3))),
        (chosen, (ad.linspace(0, 1, 4, **grad),)),
    ]


def call(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Call a function, and differentiate what it gives."""
    found = function(*args)
    results = found if isinstance(found, tuple | list) else [found]
    parts = [one.sum() for one in results if isinstance(one, ad.Tensor) and one.requires_grad]
    if parts:
        ad.stack(parts).sum().backward()


def seeds(folder: Path) -> list[tuple[Any, Case]]:
    """The contents of files, with the functions they are of."""
    made = []
    for function, args in cases():
        compiled = ad.compile(function)
        for _ in range(2):
            call(compiled, args)
        path = folder / "seed.safetensors"
        compiled.save(path)
        again = load(path, function)
        call(again, args)
        made.append((ad.load(path), (function, args)))
    return made


# --- damage ---------------------------------------------------------------------------------------
def damaged(rng: random.Random, data: Any) -> Any:
    """A copy of what JSON holds, with a few parts changed."""
    made = json.loads(json.dumps(data))
    if rng.random() < 0.3:
        made = _renumbered(rng, made)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        _change(rng, made)
    return made


def _renumbered(rng: random.Random, value: Any) -> Any:
    """Another number in place of one, wherever it stands: other sizes, that fit one another."""
    found = [n for _, _, n in _leaves(value) if type(n) is int and n > 1]
    if not found:
        return value
    was = rng.choice(found)
    now = rng.choice((was + 1, was - 1, 2 * was, was // 2, rng.choice(NUMBERS)))

    def change(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: change(one) for key, one in part.items()}
        if isinstance(part, list):
            return [change(one) for one in part]
        return now if type(part) is int and part == was else part

    return change(value)


def _leaves(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Holders, keys and parts of a structure, all of them."""
    ahead = [value]
    while ahead:
        holder = ahead.pop()
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            yield holder, key, holder[key]
            if isinstance(holder[key], dict | list):
                ahead.append(holder[key])


def _change(rng: random.Random, value: Any) -> None:
    parts = [*_leaves(value)]
    if not parts:
        return
    kinds = rng.choice((int, int, int, str, list, dict, object))
    some = [one for one in parts if isinstance(one[2], kinds)] or parts
    holder, key, part = rng.choice(some)
    way = rng.randrange(7)
    if key == "op":
        holder[key] = rng.choice(OPS)
    elif key == "dtype":
        holder[key] = rng.choice(DTYPES)
    elif isinstance(part, int) and way < 5:
        other = rng.choice(some)[2]
        holder[key] = rng.choice((part + rng.choice((-1, 1, 2, 8, -8)), rng.choice(NUMBERS), other))
    elif way == 5:
        holder[key] = rng.choice((*NUMBERS, *OTHERS))
    elif isinstance(holder, list) and way == 6:
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, json.loads(json.dumps(rng.choice((part, rng.choice(some)[2])))))
    else:
        holder[key] = json.loads(json.dumps(rng.choice(some)[2]))


def damaged_constants(rng: random.Random, constants: list[Any]) -> list[Any]:
    """Tensors of a file with other numbers, another shape or another dtype."""
    made = [t.clone() for t in constants]
    if made and rng.random() < 0.3:
        k = rng.randrange(len(made))
        t = made[k]
        way = rng.randrange(3)
        if way == 0:
            made[k] = ad.full_like(t, rng.choice((0, 1, 2, 7, 100)))
        elif way == 1:
            made[k] = t.to(getattr(ad, rng.choice(DTYPES)))
        else:
            made[k] = t.reshape(-1)[: rng.randrange(t.numel() + 1)]
    return made


def write(rng: random.Random, seed: Any, path: Path) -> None:
    """A damaged file, whose digest is right."""
    data = json.loads(seed["programs"])
    if rng.random() < 0.9:
        one = rng.choice(data["calls"])
        name = rng.choice(("forward", "forward", "backward", "backward", "partial"))
        if one["loops"] and rng.random() < 0.7:
            name = "loops"
        if rng.random() < 0.1:
            data["calls"] = damaged(rng, data["calls"])
        else:
            one[name] = damaged(rng, one[name]) if one[name] else one[name]
    else:
        one = rng.choice(data["calls"])
        for name in rng.sample([key for key in one if key != "guards"], 2):
            one[name] = damaged(rng, [one[name]])[0] if one[name] != [] else one[name]
    text = json.dumps(data)
    constants = damaged_constants(rng, seed["constants"])
    digest = content_print(text, constants)
    ad.save({**seed, "programs": text, "constants": constants, "digest": digest}, path)


# --- the run --------------------------------------------------------------------------------------
def attempt(name: str, files: list[tuple[Any, Case]], path: Path) -> str:
    """Damage, load and run one file; what became of it."""
    rng = random.Random(name)
    seed, (function, args) = rng.choice(files)
    try:
        write(rng, seed, path)
    except (ValueError, TypeError, LookupError, RuntimeError, MemoryError):
        return "not written"
    try:
        again = load(path, function)
    except LoadError as error:
        assert len(str(error)) < 2000, f"{name}: a message without an end"
        return "refused"
    except MemoryError:  # for what is in no program, where an earlier case has left little
        return "no memory"
    if not again.programs:
        return "not for this function"
    again._record = _none  # type: ignore[method-assign]
    signal.alarm(PATIENCE)
    try:
        call(again, args)
        return "ran"
    except KeyboardInterrupt:
        return "ran long"
    except Exception:
        return "raised"
    finally:
        signal.alarm(0)


def _none(*args: Any) -> Any:
    raise RuntimeError("no program fits")


def run(rounds: int, seed: int) -> Counter[str]:
    """Damage and run so many files; how often they were refused, ran, or raised."""
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = _core._roll_from(100)
        files = seeds(folder)
        _core._roll_from(before)
        for first in range(0, rounds, BATCH):
            results = folder / "results"

            def work(log: Log, first: int = first, results: Path = results) -> None:
                found: Counter[str] = Counter()
                for i in range(first, min(first + BATCH, rounds)):
                    log.note(Step(f"{seed}/{i}"))
                    found[attempt(f"{seed}/{i}", files, folder / "case.safetensors")] += 1
                    log.counts = (i - first + 1, 0)
                results.write_text(json.dumps(found))

            child = Child(work)
            while (code := child.poll()) is None:
                time.sleep(0.01)
            failure = child.failure(code)
            if failure is not None:
                where = failure.steps[-1].line if failure.steps else "?"
                raise SystemExit(f"{failure.kind} (--replay {where}): {failure.text[:3000]}")
            counts.update(json.loads(results.read_text()))
    return counts


def replay(name: str) -> str:
    """Run one case in this process."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        before = _core._roll_from(100)
        files = seeds(Path(folder))
        _core._roll_from(before)
        return attempt(name, files, Path(folder) / "case.safetensors")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sanitized", action="store_true", help="set up what build-asan needs")
    parser.add_argument("--replay", metavar="SEED/ROUND", help="run one case again")
    arguments = parser.parse_args()
    if arguments.replay:
        print(replay(arguments.replay))
    else:
        print(dict(run(arguments.rounds, arguments.seed)))


if __name__ == "__main__":
    main()
