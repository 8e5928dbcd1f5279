"""Convolutions and pooling, with gradients; 16-bit floats beside PyTorch's and beside float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.data import normal


def gradients(lib: Any, leaves: tuple[Any, ...], f: Callable[..., Any]) -> Callable[[], Any]:
    """Return the work of f and of the gradients of all its arguments."""

    def work() -> Any:
        y = f(*leaves)
        return y, *lib.autograd.grad(y, leaves, lib.ones_like(y))

    return work


def small_net(lib: Any) -> Callable[[], Any]:
    F = lib.nn.functional
    x = normal(lib, 16, 3, 32, 32)
    w1, w2 = (
        normal(lib, *shape, seed=s, grad=True, scale=0.1)
        for s, shape in ((1, (32, 3, 3, 3)), (2, (64, 32, 3, 3)))
    )

    def work() -> Any:
        hidden = F.max_pool2d(F.relu(F.conv2d(x, w1, padding=1)), 2)
        loss = F.relu(F.conv2d(hidden, w2, padding=1)).mean()
        return loss, *lib.autograd.grad(loss, (w1, w2))

    return work


def depthwise(lib: Any) -> Callable[[], Any]:
    x, w = normal(lib, 16, 32, 28, 28, grad=True), normal(lib, 32, 1, 3, 3, seed=1, grad=True)
    return gradients(lib, (x, w), lambda x, w: lib.nn.functional.conv2d(x, w, padding=1, groups=32))


def wide(dtype: str) -> Callable[[Any], Callable[[], Any]]:
    def setup(lib: Any) -> Callable[[], Any]:
        x = normal(lib, 32, 64, 28, 28).to(getattr(lib, dtype)).requires_grad_()
        w = normal(lib, 64, 64, 3, 3, seed=1, scale=0.05).to(getattr(lib, dtype)).requires_grad_()
        return gradients(lib, (x, w), lambda x, w: lib.nn.functional.conv2d(x, w, padding=1))

    return setup


def pooled(lib: Any) -> Callable[[], Any]:
    x = normal(lib, 32, 64, 28, 28, grad=True)
    return gradients(lib, (x,), lambda x: lib.nn.functional.max_pool2d(x, 2))


def twice(lib: Any) -> Callable[[], Any]:
    x, w = (
        normal(lib, *shape, seed=s, grad=True, scale=0.3)
        for s, shape in enumerate([(8, 16, 28, 28), (32, 16, 3, 3)])
    )

    def work() -> Any:
        y = lib.nn.functional.conv2d(x, w, padding=1)
        dx, dw = lib.autograd.grad(y.square().sum(), (x, w), create_graph=True)
        return lib.autograd.grad(dx.square().sum() + dw.square().sum(), (x, w))

    return work


def product(dtype: str) -> Callable[[Any], Callable[[], Any]]:
    def setup(lib: Any) -> Callable[[], Any]:
        a, b = (
            normal(lib, 512, 512, seed=s).to(getattr(lib, dtype)).requires_grad_() for s in (0, 1)
        )
        return gradients(lib, (a, b), lambda a, b: a @ b)

    return setup


PAR = Mark(speedup=1.0)
WORKLOADS = (
    Workload("conv2d net, 16x3x32x32 to 32, pool, to 64, gradients", small_net, PAR),
    Workload("depthwise conv 3x3, 16x32x28x28, gradients", depthwise, PAR),
    Workload("conv 3x3, 32x64x28x28 to 64, gradients", wide("float32"), PAR, tolerance=1e-3),
    Workload("max_pool2d of 32x64x28x28 by 2, gradient", pooled, PAR),
    Workload("conv 3x3, 8x16x28x28 to 32, double backward", twice, PAR, tolerance=1e-3),
    *(
        Workload(
            f"{name} in {dtype}, beside float32",
            setup(dtype),
            PAR,
            tolerance=0.05,
            peer="adjoint",
            peer_setup=setup("float32"),
        )
        for name, setup in (
            ("512x512 product, gradients", product),
            ("conv 3x3, 32x64x28x28 to 64, gradients", wide),
        )
        for dtype in ("bfloat16", "float16")
    ),
)
