"""install_as_torch: `import torch` means adjoint, in that process and clearly."""

from __future__ import annotations

import subprocess
import sys

import adjoint as ad


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "import adjoint as ad\nad.install_as_torch()\n" + code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_modules_are_the_same_objects() -> None:
    run(
        "import torch, torch.nn.functional as F\n"
        "import torch.optim.lr_scheduler\n"
        "from torch import nn, Tensor\n"
        "from torch.nn.modules.linear import Linear\n"
        "assert F is ad.nn.functional and nn is ad.nn and Tensor is ad.Tensor\n"
        "assert Linear is ad.nn.Linear and torch.optim is ad.optim\n"
        "assert ad.nn.__spec__.name == 'adjoint.nn'\n"
        "assert torch.sin is ad.sin and torch.float32 is ad.float32"
    )


def test_a_function_keeps_its_place_before_the_module_of_its_name() -> None:
    run(
        "from torch.autograd.gradcheck import GradcheckError, gradcheck\n"
        "import torch, torch.autograd.gradcheck\n"
        "assert torch.autograd.gradcheck is gradcheck is ad.autograd.gradcheck\n"
        "assert issubclass(GradcheckError, RuntimeError)"
    )


def test_a_module_under_its_second_name_says_what_it_lacks() -> None:
    out = run(
        "import torch.utils._pytree as module\n"
        "for name in ('nonsense', '__nonsense__'):\n"
        "    try:\n"
        "        getattr(module, name)\n"
        "    except AttributeError as error:\n"
        "        print(str(error).splitlines()[0])"
    )
    first, second = out.splitlines()
    assert first.startswith(
        "module 'torch.utils._pytree' has no attribute 'nonsense': `torch` is adjoint"
    )
    assert second == "module 'torch.utils._pytree' has no attribute '__nonsense__'"


def test_it_answers_for_pytorchs_version_and_devices() -> None:
    out = run(
        "import torch\n"
        "print(torch.__version__, torch.cuda.is_available(), torch.device('cpu'))\n"
        "print(repr(torch.device('cpu', 0)), torch.device('cpu') == torch.device('cpu'))"
    )
    assert out == "2.13.0+adjoint False cpu\ndevice(type='cpu', index=0) True\n"


def test_a_second_call_changes_nothing() -> None:
    run(
        "import torch, sys\n"
        "finders = len(sys.meta_path)\n"
        "ad.install_as_torch()\n"
        "import torch as again\n"
        "assert again is torch and len(sys.meta_path) == finders"
    )


def test_two_calls_before_the_first_import_install_one_finder() -> None:
    run("import sys\nn = len(sys.meta_path)\nad.install_as_torch()\nassert len(sys.meta_path) == n")


def test_missing_names_say_that_adjoint_lacks_them() -> None:
    out = run(
        "import torch, torch.nn\n"
        "for code in ('torch.foo', 'torch.nn.Conv9d', 'import torch.distributed.rpc',\n"
        "             'from torch import foo', 'from torch.nn import Conv9d'):\n"
        "    try:\n"
        "        exec(code)\n"
        "    except (AttributeError, ImportError) as error:\n"
        "        print(type(error).__name__, str(error).splitlines()[0])\n"
        "assert not hasattr(torch, 'foo') and not hasattr(torch.nn, 'Conv9d')"
    )
    lines = out.splitlines()
    kinds = [line.split()[0] for line in lines]
    assert kinds == [
        "AttributeError",
        "AttributeError",
        "ModuleNotFoundError",
        "ImportError",
        "ImportError",
    ]
    assert all("adjoint" in line for line in lines), out


def test_it_refuses_when_pytorch_is_imported_already() -> None:
    code = (
        "import sys, types\n"
        "sys.modules['torch'] = types.ModuleType('torch')\n"
        "import adjoint as ad\n"
        "ad.install_as_torch()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "RuntimeError" in done.stderr
    assert "PyTorch is imported already" in done.stderr and "adjoint run" in done.stderr


def test_classes_are_shown_as_pytorchs_and_list_what_they_have() -> None:
    code = (
        "import torch, pickle\n"
        "x = torch.ones(1)\n"
        "print(type(x), type(x.shape), type(torch.nn.Parameter(x)), x.dtype.__class__)\n"
        "print(type('Own', (torch.Tensor,), {'__module__': 'm'}), torch.Tensor.__module__)\n"
        "print(pickle.loads(pickle.dumps(torch.Tensor)) is torch.Tensor)\n"
    )
    shown = "<class 'torch.Tensor'> <class 'torch.Size'> <class 'torch.nn.parameter.Parameter'>"
    assert run(code).splitlines() == [
        f"{shown} <class 'torch.dtype'>",
        "<class 'm.Own'> adjoint",
        "True",
    ]
    assert repr(ad.Tensor) == "<class 'adjoint.Tensor'>"
    assert all(hasattr(ad.Tensor, name) for name in dir(ad.Tensor))
