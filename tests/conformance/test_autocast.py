"""Autocast beside PyTorch's: the dtype of every op's result, and of layers and losses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _core
from tests.ops.samples import OPS
from tests.ops.spec import Op, Sample, dtype_name, outputs, to_library

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
torch.backends.opt_einsum.enabled = False


def dtypes(library: Any, op: Op, sample: Sample, given: str, lower: str) -> list[str] | type:
    """Of the results under autocast, or the class of the error."""
    converted = sample.map(lambda a: to_library(a, library, given))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with library.autocast("cpu", dtype=getattr(library, lower)):
                results = outputs(op.function(library)(*converted.args, **converted.kwargs))
    except Exception as error:  # compared by its being there
        return type(error)
    return [dtype_name(t) for t in results]


# Composed of products by torch, and of others here; or the other way round.
OTHERWISE = {
    "inner": "vectors are multiplied by dot in torch, which keeps float32",
    "linalg_pinv": "torch's last product rounds to the lower precision; ours stays in float32",
    "linalg_pinv_tolerant": "as linalg_pinv",
}


@pytest.mark.parametrize("name", [n for n in OPS if n not in OTHERWISE])
def test_results_have_the_dtypes_of_torchs(name: str) -> None:
    op = OPS[name]
    wanted = set(op.letters("fh"))
    for given in ("float32", "bfloat16", "float64"):
        if given not in wanted:
            continue
        for label, sample in list(op.drawn(given))[:4]:
            theirs = dtypes(torch, op, sample, given, "bfloat16")
            if isinstance(theirs, type):
                continue  # torch lacks a kernel for that precision, or refuses two of them
            assert dtypes(ad, op, sample, given, "bfloat16") == theirs, f"{label} of {given}"


def listed() -> set[str]:
    """The ops that torch's autocast changes on the CPU."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
    return {n[len("aten::") :].partition(".")[0] for n in names if has(n, "AutocastCPU")}


# Whose block says nothing, since their operands are what other ops gave them.
WITHOUT_A_WORD = {"grid_sampler_2d", "grid_sampler_3d"}


def test_every_op_that_torch_lists_says_so_in_its_block() -> None:
    names = listed() - WITHOUT_A_WORD
    silent = [
        row["full_name"]
        for row in _core.op_table()
        if row["name"] in names and row["autocast"] == "untouched"
    ]
    assert not silent


SHAPE = (4, 3, 6)


def calls() -> dict[str, Any]:
    """Layers and losses that are written in Python here."""
    classes = np.array([0, 2, 1, 0])

    def pair(library: Any, dtype: Any) -> tuple[Any, Any]:
        values = np.linspace(0.1, 0.9, 24).reshape(4, 6)
        x = library.tensor(values.tolist(), dtype=dtype)
        return x, library.flip(x, (0,))

    def loss(name: str, **options: Any) -> Any:
        return lambda lib, dtype: getattr(lib.nn.functional, name)(*pair(lib, dtype), **options)

    def signed(name: str) -> Any:
        def run(lib: Any, dtype: Any) -> Any:
            x, y = pair(lib, dtype)
            return getattr(lib.nn.functional, name)(x, y, lib.tensor([1, -1, 1, -1]))

        return run

    def layer(make: Any, shape: tuple[int, ...] = SHAPE) -> Any:
        return lambda lib, dtype: make(lib)(lib.ones(shape, dtype=dtype))

    return {
        "kl_div": loss("kl_div", reduction="sum"),
        "poisson_nll_loss": loss("poisson_nll_loss"),
        "hinge_embedding_loss": loss("hinge_embedding_loss"),
        "soft_margin_loss": loss("soft_margin_loss"),
        "multilabel_soft_margin_loss": loss("multilabel_soft_margin_loss"),
        "mse_loss": loss("mse_loss"),
        "l1_loss": loss("l1_loss"),
        "smooth_l1_loss": loss("smooth_l1_loss"),
        "huber_loss": loss("huber_loss"),
        "binary_cross_entropy": loss("binary_cross_entropy"),
        "bce_with_logits": loss("binary_cross_entropy_with_logits"),
        "cosine_embedding_loss": signed("cosine_embedding_loss"),
        "cosine_similarity": loss("cosine_similarity"),
        "triplet": lambda lib, d: lib.nn.functional.triplet_margin_loss(
            *pair(lib, d), pair(lib, d)[0]
        ),
        "cross_entropy": lambda lib, d: lib.nn.functional.cross_entropy(
            pair(lib, d)[0], lib.tensor(classes.tolist())
        ),
        "nll_loss": lambda lib, d: lib.nn.functional.nll_loss(
            pair(lib, d)[0], lib.tensor(classes.tolist())
        ),
        "multi_margin_loss": lambda lib, d: lib.nn.functional.multi_margin_loss(
            pair(lib, d)[0], lib.tensor(classes.tolist())
        ),
        "prelu": lambda lib, d: lib.prelu(pair(lib, d)[0], lib.tensor([0.1], dtype=d)),
        "reflect": lambda lib, d: lib.nn.functional.pad(pair(lib, d)[0], (1, 1), "reflect"),
        "replicate": lambda lib, d: lib.nn.functional.pad(pair(lib, d)[0], (1, 1), "replicate"),
        "circular": lambda lib, d: lib.nn.functional.pad(pair(lib, d)[0], (1, 1), "circular"),
        "max_pool1d": lambda lib, d: lib.nn.functional.max_pool1d(pair(lib, d)[0], 2),
        "max_pool3d": lambda lib, d: lib.nn.functional.max_pool3d(
            lib.ones(1, 2, 4, 4, 4, dtype=d), 2
        ),
        "layer_norm": lambda lib, d: lib.nn.functional.layer_norm(pair(lib, d)[0], (6,)),
        "softmax": lambda lib, d: pair(lib, d)[0].softmax(-1),
        "matmul": lambda lib, d: pair(lib, d)[0] @ pair(lib, d)[1].T,
        "linear": layer(lambda lib: lib.nn.Linear(6, 2)),
        "bilinear": lambda lib, d: lib.nn.functional.bilinear(
            *pair(lib, d), lib.ones(2, 6, 6, dtype=d)
        ),
        "conv1d": layer(lambda lib: lib.nn.Conv1d(3, 2, 3)),
        "conv_transpose1d": lambda lib, d: lib.nn.functional.conv_transpose1d(
            lib.ones(SHAPE, dtype=d), lib.ones(3, 2, 3, dtype=d)
        ),
        "batch_norm": layer(lambda lib: lib.nn.BatchNorm1d(3)),
        "group_norm": layer(lambda lib: lib.nn.GroupNorm(1, 3)),
        "embedding": lambda lib, d: lib.nn.Embedding(5, 2)(lib.tensor([0, 1])),
        "lstm": layer(lambda lib: lambda x: lib.nn.LSTM(6, 5, 2)(x)[0]),
        "lstm states": layer(lambda lib: lambda x: lib.nn.LSTM(6, 5)(x)[1][1]),
        "gru": layer(lambda lib: lambda x: lib.nn.GRU(6, 5, bidirectional=True)(x)[0]),
        "rnn": layer(lambda lib: lambda x: lib.nn.RNN(6, 5)(x)[0]),
        "lstm cell": layer(lambda lib: lambda x: lib.nn.LSTMCell(6, 5)(x)[1], (4, 6)),
        "gru cell": layer(lambda lib: lib.nn.GRUCell(6, 5), (4, 6)),
        "rnn cell": layer(lambda lib: lib.nn.RNNCell(6, 5), (4, 6)),
        "attention": layer(lambda lib: lambda x: lib.nn.MultiheadAttention(6, 2)(x, x, x)[0]),
        "attention weights": layer(
            lambda lib: lambda x: lib.nn.MultiheadAttention(6, 2)(x, x, x)[1]
        ),
        "encoder layer": layer(lambda lib: lib.nn.TransformerEncoderLayer(6, 2, 8)),
    }


@pytest.mark.parametrize("what", list(calls()))
def test_layers_and_losses_have_the_dtypes_of_torchs(what: str) -> None:
    call = calls()[what]
    for given in ("float32", "bfloat16"):
        found = []
        for library in (ad, torch):
            try:
                with library.autocast("cpu", dtype=library.bfloat16):
                    found.append(dtype_name(call(library, getattr(library, given))))
            except (RuntimeError, ValueError) as error:
                found.append(type(error).__name__)
        assert found[0] == found[1], f"{what} of {given}: {found}"


NAMES = [
    "autocast",
    "GradScaler",
    "is_autocast_enabled",
    "get_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_dtype",
    "is_autocast_cache_enabled",
    "set_autocast_cache_enabled",
    "clear_autocast_cache",
    "autocast_increment_nesting",
    "autocast_decrement_nesting",
    "is_autocast_cpu_enabled",
    "set_autocast_cpu_enabled",
    "get_autocast_cpu_dtype",
    "set_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "set_autocast_gpu_dtype",
    "amp.autocast",
    "amp.GradScaler",
    "amp.custom_fwd",
    "amp.custom_bwd",
    "amp.is_autocast_available",
    "cpu.amp.autocast",
    "cpu.amp.GradScaler",
    "cuda.amp.autocast",
    "cuda.amp.GradScaler",
    "cuda.amp.custom_fwd",
    "cuda.amp.custom_bwd",
    "amp.autocast_mode.autocast",
    "amp.grad_scaler.OptState",
    "cuda.amp.autocast_mode.autocast",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_resolve(name: str) -> None:
    for library in (ad, torch):
        thing = library
        for part in name.split("."):
            thing = getattr(thing, part)
        assert callable(thing)


QUESTIONS: dict[str, Any] = {
    "another device": lambda lib: lib.autocast("bogus"),
    "a device object": lambda lib: lib.autocast(lib.device("cpu")),
    "no device": lambda lib: lib.autocast(),
    "cuda": lambda lib: lib.autocast("cuda")._enabled,
    "float32": lambda lib: lib.autocast("cpu", dtype=lib.float32)._enabled,
    "default": lambda lib: str(lib.autocast("cpu").fast_dtype),
    "off": lambda lib: lib.autocast("cpu", enabled=False)._enabled,
    "available": lambda lib: [lib.amp.is_autocast_available(d) for d in ("cpu", "cuda", "meta")],
    "available bogus": lambda lib: lib.amp.is_autocast_available("bogus"),
    "enabled": lambda lib: (lib.is_autocast_enabled(), lib.is_autocast_enabled("cpu")),
    "dtypes": lambda lib: [str(lib.get_autocast_dtype(d)) for d in ("cpu", "cuda")],
    "cuda scaler": lambda lib: lib.amp.GradScaler().is_enabled(),
    "cpu scaler": lambda lib: lib.amp.GradScaler("cpu").state_dict(),
    "factor": lambda lib: lib.amp.GradScaler("cpu", growth_factor=1.0),
    "empty state": lambda lib: lib.amp.GradScaler("cpu").load_state_dict({}),
    "unscale first": lambda lib: lib.amp.GradScaler("cpu").unscale_(None),
    "scale text": lambda lib: lib.amp.GradScaler("cpu").scale(3.0),
    "old cpu name": lambda lib: lib.cpu.amp.autocast()._enabled,
    "old cuda name": lambda lib: lib.cuda.amp.autocast()._enabled,
}


@pytest.mark.parametrize("what", list(QUESTIONS))
def test_answers_warnings_and_errors_are_torchs(what: str) -> None:
    found = []
    for library in (ad, torch):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                answer = QUESTIONS[what](library)
            except Exception as error:
                answer = type(error)
        texts = [(w.category, str(w.message)) for w in told]
        found.append((answer, texts))
    assert found[0] == found[1]
