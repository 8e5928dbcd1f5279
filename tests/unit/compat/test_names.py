"""Small names of PyTorch's that programs and libraries touch on the way."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import pytest

import adjoint as ad
from adjoint.torch_version import TorchVersion


def test_versions_compare_as_versions() -> None:
    v = TorchVersion("2.13.0+adjoint")
    assert v > "2.2" and v >= "2.13" and v < "3" and v >= (2, 13, 0) and v < (2, 14)
    assert v == "2.13.0+adjoint" and v > "2.13.0" and v != "2.12.1" and not v <= "2.9.9"
    assert v.startswith("2.13") and isinstance(v, str) and hash(v) == hash(str(v))
    assert TorchVersion("2.13.0a0") < "2.13.0"
    assert ad.version.cuda is None and ad.version.hip is None and not ad.version.debug


def test_configuration_is_told() -> None:
    assert "adjoint" in ad.__config__.show() and "CPU capability" in ad.__config__.show()
    assert f"get_num_threads() : {ad.get_num_threads()}" in ad.__config__.parallel_info()
    report = ad.utils.collect_env.get_pretty_env_info()
    assert ad.__version__ in report and "numpy==" in report


@pytest.mark.parametrize(
    ("call", "way"),
    [
        (lambda: ad.fx.symbolic_trace(ad.nn.Linear(1, 1)), r"adjoint\.compile"),
        (lambda: ad.fx.Tracer(), "register_forward_hook"),
        (lambda: ad.export.export(ad.nn.Linear(1, 1), ()), "export there"),
        (lambda: ad.onnx.export(ad.nn.Linear(1, 1), (), "f"), r"torch\.onnx\.export there"),
        (lambda: ad.hub.load("repository", "model"), "load_state_dict"),
        (lambda: ad.package.PackageExporter("f"), "state_dict"),
        (lambda: ad.library.custom_op("a::b"), r"autograd\.Function"),
    ],
)
def test_what_is_refused_names_the_way_out(call: Any, way: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"(?s)\n  fix: .*{way}"):
        call()


def test_refused_classes_and_devices_can_be_asked_about() -> None:
    assert not isinstance(ad.nn.Linear(1, 1), ad.fx.GraphModule)
    assert not ad.onnx.is_in_onnx_export() and not ad.distributed.is_initialized()
    for module in (ad.xpu, ad.mps, ad.mtia, ad.accelerator):
        assert module.is_available() is False
    assert ad.accelerator.current_accelerator() is None and ad.xpu.device_count() == 0
    assert ad.ones(1).is_mps is False and ad.ones(1).is_xpu is False


def test_control_flow_is_pythons() -> None:
    x = ad.tensor(3.0, requires_grad=True)
    y = ad.cond(x > 0, lambda x: x * x, lambda x: -x, (x,))
    y.backward()
    assert x.grad is not None and x.grad.item() == 6.0
    i, total = ad.while_loop(
        lambda i, t: i < 4, lambda i, t: (i + 1, t + i), (ad.tensor(0), ad.tensor(0))
    )
    assert (i.item(), total.item()) == (4, 6)


def test_numbers_of_the_tracer_are_pythons() -> None:
    assert ad.sym_int(2.7) == 2 and ad.sym_int(-2.7) == -2
    assert ad.sym_max(1, 2.5) == 2.5 and ad.sym_min(1, 2.5) == 1.0
    assert ad.sym_not(True) is False and ad.sym_sum([1, 2]) == 3 and ad.sym_ite(True, 1, 2) == 1


def test_settings_are_kept() -> None:
    before = ad.get_num_interop_threads()
    ad.set_num_interop_threads(3)
    assert ad.get_num_interop_threads() == 3
    ad.set_num_interop_threads(before)
    with pytest.raises(RuntimeError):
        ad.set_num_interop_threads(0)
    assert not ad.is_warn_always_enabled() and ad.set_flush_denormal(True) is False


def test_old_functions() -> None:
    with pytest.warns(UserWarning, match="deprecated"):
        assert ad.range(1, 4).tolist() == [1.0, 2.0, 3.0, 4.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ad.range(0, 1, 0.25).shape == (5,)
    v = ad.arange(6.0).reshape(2, 3)
    assert ad.norm_except_dim(v, 2, 0).shape == (2, 1)
    assert ad.frobenius_norm(v).item() == pytest.approx(55**0.5)


def test_names_of_types() -> None:
    assert ad.typename(ad.ones(1)) == "torch.FloatTensor"
    assert ad.typename(ad.nn.Linear(1, 1)) == "torch.nn.modules.linear.Linear"
    assert ad.typename(3) == "int"
    for name in ("Number", "Device", "FileLike", "_size", "_int", "_dtype", "Storage", "Tensor"):
        assert hasattr(ad.types, name)
    assert isinstance(3, ad.types.Number)


def test_private_names_that_libraries_import() -> None:
    from adjoint import _C
    from adjoint.autograd.functional import (  # noqa: F401
        _construct_standard_basis_for,
        _grad_postprocess,
        _tuple_postprocess,
    )
    from adjoint.optim.lbfgs import _strong_wolfe  # noqa: F401

    assert issubclass(_C._LinAlgError, RuntimeError)
    assert _C._debug_only_are_vmap_fallback_warnings_enabled() is True
    _C._debug_only_display_vmap_fallback_warnings(True)
    _C._log_api_usage_once("x")
    assert _C._get_tracing_state() is None and _C._TensorBase is ad.Tensor
    assert not _C._has_torch_function((ad.ones(1),))
    assert _C._nn.gelu is ad.nn.functional.gelu
    storage = ad.ones(2, dtype=ad.float64).storage()
    assert storage.element_size() == 8 and storage.nbytes() == 16
    assert ad.storage.TypedStorage is ad.TypedStorage


def test_dir_shows_everything_before_its_first_use() -> None:
    import subprocess
    import sys

    program = (
        "import adjoint as ad\n"
        "names = dir(ad)\n"
        "for name in ('nn', 'optim', 'profiler', 'compile', 'einsum', 'typename', 'vmap'):\n"
        "    assert name in names and name not in vars(ad), name\n"
        "assert all(hasattr(ad, name) for name in names)\n"
        "assert {'data', 'checkpoint', 'benchmark'} <= set(dir(ad.utils))\n"
        "assert {'functional', 'profiler'} <= set(dir(ad.autograd))\n"
        "ad.install_as_torch()\n"
        "import torch\n"
        "assert set(names) <= set(dir(torch))\n"
        "import inspect\n"
        "assert 'inspect' in dir() and torch.__config__.show()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_adjoint_loads_little() -> None:
    import subprocess
    import sys
    from pathlib import Path

    folder = str(Path(ad.__file__).parents[1])  # -S: what lies in it imports things of its own
    program = (
        f"import sys; sys.path.append({folder!r}); import adjoint\n"
        "heavy = {'inspect', 'dataclasses', 'numpy', 'adjoint.utils.data', 'adjoint.nn', "
        "'adjoint.profiler', 'adjoint.utils.dlpack', 'difflib', 'ast'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-S", "-c", program], check=True)


@pytest.mark.parametrize(
    "address",
    ["Tensor", "", "nn.functional", "linalg", "special", "fft", "autograd", "func", "nn.init"],
)
def test_signatures_are_known_of_every_function(address: str) -> None:
    holder: Any = ad
    if address == "Tensor":
        holder = ad.Tensor
    elif address:
        holder = importlib.import_module(f"adjoint.{address}")
    for name in dir(holder):
        value = getattr(holder, name, None)
        if name.startswith("__") or not callable(value) or isinstance(value, type):
            continue
        inspect.signature(value)


def test_signatures_name_the_arguments() -> None:
    assert str(inspect.signature(ad.Tensor.size)) == "(self, /, dim=None)"
    assert str(inspect.signature(ad.ones(1).size)) == "(dim=None)"
    assert str(inspect.signature(ad.Tensor.numel)) == "(self, /)"
    assert list(inspect.signature(ad.ones(1).backward).parameters)[:2] == [
        "gradient",
        "retain_graph",
    ]
    assert next(iter(inspect.signature(ad.max).parameters)) == "input"
    assert list(inspect.signature(ad.ones(1).uniform_).parameters)[:2] == ["from_", "to"]
    assert list(inspect.signature(ad.can_cast).parameters) == ["from_", "to"]
