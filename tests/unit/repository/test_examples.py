"""The examples that must run and print what PyTorch prints, character by character."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad

# Each program is run with `m` standing for the library; its lines of output were printed by torch.
EXAMPLES: dict[str, tuple[str, list[str]]] = {
    "scalar": (
        """
x = m.tensor(2.0, requires_grad=True)
z = 2 * x**2 + 1
print(z)
z.backward()
print(x.grad)
""",
        ["tensor(9., grad_fn=<AddBackward0>)", "tensor(8.)"],
    ),
    "sum of squares": (
        """
x = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = m.sum(x**2)
y.backward()
print(y, x.grad)
""",
        ["tensor(14., grad_fn=<SumBackward0>) tensor([2., 4., 6.])"],
    ),
    "matrix product": (
        """
a = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
b = m.tensor([[5.0, 6.0], [7.0, 8.0]], requires_grad=True)
c = m.mm(a, b)
print(c)
c.sum().backward()
print(a.grad)
print(b.grad)
""",
        [
            "tensor([[19., 22.],",
            "        [43., 50.]], grad_fn=<MmBackward0>)",
            "tensor([[11., 15.],",
            "        [11., 15.]])",
            "tensor([[4., 4.],",
            "        [6., 6.]])",
        ],
    ),
    "sine of a sum": (
        """
x = m.tensor([1.0, 2.0], requires_grad=True)
y = m.sin(m.sum(x**2))
y.backward()
print(y)
print(x.grad)
""",
        ["tensor(-0.9589, grad_fn=<SinBackward0>)", "tensor([0.5673, 1.1346])"],
    ),
    "random sum": (
        """
m.manual_seed(0)
x = m.randn(3, 4, requires_grad=True)
print(x)
x.sum().backward()
print(x.grad)
""",
        [
            "tensor([[ 1.5410, -0.2934, -2.1788,  0.5684],",
            "        [-1.0845, -1.3986,  0.4033,  0.8380],",
            "        [-0.7193, -0.4033, -0.5966,  0.1820]], requires_grad=True)",
            "tensor([[1., 1., 1., 1.],",
            "        [1., 1., 1., 1.],",
            "        [1., 1., 1., 1.]])",
        ],
    ),
    "two leaves": (
        """
a = m.tensor([1.0, 2.0], requires_grad=True)
b = m.tensor([3.0, 4.0], requires_grad=True)
c = a + b
print(c)
c.sum().backward()
print(a.grad, b.grad)
print(c.grad_fn.next_functions[0][0].variable is a)
""",
        ["tensor([4., 6.], grad_fn=<AddBackward0>)", "tensor([1., 1.]) tensor([1., 1.])", "True"],
    ),
    "leaf changed in place": (
        """
x = m.tensor([1.0, 2.0], requires_grad=True)
try:
    x.add_(1)
except RuntimeError as error:
    print("leaf" in str(error))
print(x)
""",
        ["True", "tensor([1., 2.], requires_grad=True)"],
    ),
    "backward of a vector": (
        """
x = m.ones(2, 3, requires_grad=True)
try:
    (x * 2).backward()
except RuntimeError as error:
    print("scalar" in str(error))
print(x.grad)
""",
        ["True", "None"],
    ),
    "training": (
        """
m.manual_seed(0)
model = m.nn.Sequential(m.nn.Linear(2, 4), m.nn.Tanh(), m.nn.Linear(4, 1))
optimizer = m.optim.SGD(model.parameters(), lr=0.1)
x = m.randn(16, 2)
y = x[:, :1] * x[:, 1:]
for step in range(3):
    optimizer.zero_grad()
    loss = m.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
""",
        [],
    ),
}


def run(name: str, library: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    exec(compile(EXAMPLES[name][0], name, "exec"), {"m": library})
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", [n for n in EXAMPLES if EXAMPLES[n][1]])
def test_the_example_prints_what_torch_printed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(name, ad, capsys) == EXAMPLES[name][1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_prints_what_torch_prints(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    assert run(name, ad, capsys) == run(name, torch, capsys)
