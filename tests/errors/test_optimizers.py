"""Messages of the optimizers and of the schedules of their rates; the texts are PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import _core, optim
from adjoint.nn import Parameter
from adjoint.optim import lr_scheduler as schedules
from tests.errors.table import Row, check, refusals

core: Any = _core
pair = ad.ones(2)


def parameters() -> list[Any]:
    return [Parameter(ad.ones(2))]


def sgd(**options: Any) -> optim.SGD:
    return optim.SGD(parameters(), **{"lr": 0.1, **options})


def made(name: str, *args: Any, **options: Any) -> Any:
    """An optimizer of that name."""
    return getattr(optim, name)(parameters(), *args, **options)


def duplicate_groups() -> None:
    p = parameters()
    optim.SGD([{"params": p}, {"params": p}], lr=0.1)


def stepped(optimizer: Any, grad: Any = pair) -> Any:
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad = grad
    optimizer.step()
    return optimizer


def counted_by(count: Any) -> None:
    optimizer = stepped(made("Adam"))
    optimizer.state[optimizer.param_groups[0]["params"][0]]["step"] = count
    optimizer.step()


@refusals(
    (lambda: optim.SGD(ad.ones(2), lr=1), TypeError, "an iterable of Tensors or dicts, but got"),
    (lambda: optim.SGD([], lr=1), ValueError, "optimizer got an empty parameter list"),
    (lambda: sgd().add_param_group(3), TypeError, "param_group must be a dict, but got"),  # type: ignore[arg-type]
    (lambda: sgd().add_param_group({"params": {pair}}), TypeError, "Please use a list instead"),
    (duplicate_groups, ValueError, "some parameters appear in more than one parameter group"),
    (
        lambda: sgd().add_param_group({"params": [("b", Parameter(ad.ones(1)))]}),
        ValueError,
        "cannot add param group with names to the optimizer",
    ),
    (
        lambda: optim.SGD([("a", parameters()[0]), parameters()[0]]),  # type: ignore[list-item]
        ValueError,
        "should be with/without names. Some param names are missing",
    ),
    (lambda: optim.SGD([3], lr=1), TypeError, "one of the params is int"),  # type: ignore[list-item]
    (lambda: optim.SGD([parameters()[0] * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (
        lambda: optim.Optimizer(parameters(), {"lr": optim.optimizer.required}),
        ValueError,
        "a value of required optimization parameter lr",
    ),
    (
        lambda: sgd().load_state_dict({"state": {}, "param_groups": []}),
        ValueError,
        "different number of parameter groups",
    ),
    (
        lambda: sgd().load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
        ValueError,
        "doesn't match the size of optimizer's group",
    ),
)
def test_groups_and_states(row: Row) -> None:
    check(row)


@refusals(
    (lambda: sgd(lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda: sgd(lr=ad.ones(2)), ValueError, "Tensor lr must be 1-element"),
    (lambda: sgd(momentum=-1), ValueError, "Invalid momentum value: -1"),
    (lambda: sgd(weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
    (lambda: sgd(nesterov=True), ValueError, "requires a momentum and zero dampening"),
    (
        lambda: sgd(fused=True, differentiable=True),
        RuntimeError,
        "`fused` does not support `differentiable`",
    ),
    (
        lambda: sgd(fused=True, foreach=True),
        RuntimeError,
        "`fused` and `foreach` cannot be `True` together.",
    ),
    (
        lambda: stepped(
            optim.SGD([Parameter(ad.ones(2, dtype=ad.complex64))], fused=True),
            ad.ones(2, dtype=ad.complex64),
        ),
        RuntimeError,
        "`fused=True` requires all the params to be floating point Tensors",
    ),
    (
        lambda: stepped(
            optim.Adagrad([Parameter(ad.ones(2, device="meta"))], fused=True),
            ad.ones(2, device="meta"),
        ),
        RuntimeError,
        "float32 and meta",
    ),
    (lambda: made("Adam", -1), ValueError, "Invalid learning rate: -1"),
    (lambda: made("Adam", eps=-1), ValueError, "Invalid epsilon value: -1"),
    (lambda: made("Adam", betas=(0.9, 2.0)), ValueError, "beta parameter at index 1: 2.0"),
    (lambda: made("Adam", weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
    (lambda: made("Adam", betas=(0.9, ad.tensor(0.9))), ValueError, "both floats or both Tensors"),
    (
        lambda: made("Adam", betas=(ad.tensor([0.9]), ad.tensor(0.9)), foreach=True),
        ValueError,
        "betas[0] as a Tensor is not supported for capturable=False and foreach=True",
    ),
    (
        lambda: made("Adam", ad.tensor(0.1), foreach=True),
        ValueError,
        "lr as a Tensor is not supported for capturable=False and foreach=True",
    ),
    (
        lambda: stepped(optim.Adam([{"params": parameters(), "lr": ad.tensor(1)}], foreach=True)),
        RuntimeError,
        "lr as a Tensor is not supported for capturable=False and foreach=True",
    ),
    (lambda: made("Adam", capturable=True), NotImplementedError, "for CUDA graphs"),
    (lambda: counted_by(ad.zeros(0)), ValueError, "must be one number, not a tensor of 0 elements"),
    (lambda: counted_by(3), RuntimeError, "must contain a list of singleton tensors"),
    (lambda: made("Adadelta", rho=1.5), ValueError, "Invalid rho value: 1.5"),
    (lambda: made("Adagrad", lr_decay=-0.5), ValueError, "Invalid lr_decay value: -0.5"),
    (lambda: made("Rprop", etas=(1.0, 0.5)), ValueError, "Invalid eta values: 1.0, 0.5"),
    (
        lambda: optim.nadam.nadam(
            [pair],
            [pair],
            [pair],
            [pair],
            [1.0],
            [ad.zeros(())],  # type: ignore[list-item]
            beta1=0.9,
            beta2=0.9,
            lr=1,
            weight_decay=0,
            momentum_decay=0,
            eps=0,
        ),
        RuntimeError,
        "`mu_products` argument must contain a list of singleton tensors",
    ),
    (lambda: made("Adafactor", -1), ValueError, "Learning rate should be >= 0 but is: -1"),
    (lambda: made("Adafactor", beta2_decay=1), ValueError, "beta2_decay should be <= 0 but is: 1"),
    (lambda: made("Adafactor", eps=(-1, 0)), ValueError, "epsilon1 should be >= 0 but is: -1"),
    (lambda: made("Adafactor", eps=(None, -1)), ValueError, "epsilon2 should be >= 0 but is: -1"),
    (lambda: made("Adafactor", d=0), ValueError, "threshold d should be >= 1 but is: 0"),
    (lambda: made("Adafactor", weight_decay=-1), ValueError, "weight_decay should be >= 0 but is"),
    (
        lambda: stepped(
            optim.Adafactor([Parameter(ad.ones(2, dtype=ad.complex64))]),
            ad.ones(2, dtype=ad.complex64),
        ),
        RuntimeError,
        "Adafactor does not support complex parameters",
    ),
    (lambda: made("Muon"), ValueError, "Muon only supports 2D parameters whereas we found"),
    (lambda: made("Muon", momentum=-1), ValueError, "momentum should be >= 0 but is: -1"),
    (lambda: made("Muon", weight_decay=-1), ValueError, "weight decay should be >= 0 but is: -1"),
    (lambda: made("Muon", adjust_lr_fn="x"), ValueError, "rate function x is not supported"),
    (
        lambda: stepped(
            optim.Muon([Parameter(ad.ones(2, 2, dtype=ad.complex64))]),
            ad.ones(2, 2, dtype=ad.complex64),
        ),
        RuntimeError,
        "Muon does not support complex parameters",
    ),
    (
        lambda: stepped(optim.Muon([Parameter(ad.ones(2, 2))], ns_steps=100), ad.ones(2, 2)),
        ValueError,
        "Number of steps must be less than 100",
    ),
    (
        lambda: stepped(
            optim.Muon([Parameter(ad.ones(2, 2))], ns_coefficients=(1, 2)),
            ad.ones(2, 2),  # type: ignore[arg-type]
        ),
        ValueError,
        "Coefficients must be a tuple of exactly 3 values",
    ),
    (lambda: made("SparseAdam", 0), ValueError, "Invalid learning rate: 0"),
    (lambda: made("SparseAdam", ad.ones(2)), ValueError, "Tensor lr must be 1-element"),
    (lambda: made("SparseAdam", eps=0), ValueError, "Invalid epsilon value: 0"),
    (
        lambda: optim.SparseAdam([Parameter(ad.ones(2, dtype=ad.complex64))]),
        ValueError,
        "Complex params at indices [[0, 0]]: SparseAdam does not support complex",
    ),
    (lambda: stepped(made("SparseAdam")), RuntimeError, "does not support dense gradients"),
)
def test_options(row: Row) -> None:
    check(row)


@refusals(
    (lambda: core._optimizer_step("sgd"), TypeError, "takes 4 arguments, but 1 were given"),
    (lambda: core._optimizer_step("none", (), (), 0), ValueError, "no optimizer with this rule"),
    (lambda: core._optimizer_step("sgd", (), (), 16), ValueError, "`sgd` has no choice 16"),
    (lambda: core._optimizer_step("sgd", (), (), 4), ValueError, "`sgd` has no choice 4"),
    (lambda: core._optimizer_step("sgd", (), (), 0), ValueError, "takes a tuple of 3 columns"),
    (
        lambda: core._optimizer_step("sgd", (None, [], None), (), 0),
        TypeError,
        "params must be a list of tensors, not None",
    ),
    (
        lambda: core._optimizer_step("sgd", ([], [], None), (0,) * 5, 2),
        TypeError,
        "state 1 must be a list of tensors, not None",
    ),
    (
        lambda: core._optimizer_step("sgd", (3, [], None), (), 0),
        TypeError,
        "params must be a list of tensors, not int",
    ),
    (
        lambda: core._optimizer_step("sgd", ([3], [], None), (), 0),
        TypeError,
        "params[0] is not a tensor: int",
    ),
    (
        lambda: core._optimizer_step("sgd", ([], [pair], None), (), 0),
        ValueError,
        "grads has 1 entries for 0 parameters",
    ),
    (
        lambda: core._optimizer_step("sgd", ([], [], None), (), 0),
        ValueError,
        "`sgd` takes a tuple of 5 numbers",
    ),
    (lambda: core._optimizer_step("sgd", ([], [], None), ("a",) * 5, 0), TypeError, "real number"),
    (lambda: core._count_steps(None), TypeError, "steps must be a list of tensors, not None"),
)
def test_private_entries(row: Row) -> None:
    check(row)


def chained(*given: Any) -> Any:
    return schedules.ChainedScheduler(given)


def sequential(*given: Any, milestones: Any = ()) -> Any:
    return schedules.SequentialLR(given[0].optimizer if given else sgd(), list(given), milestones)


def beyond_the_end() -> None:
    optimizer = sgd()
    scheduler = schedules.OneCycleLR(optimizer, 0.1, 2, cycle_momentum=False)
    for _ in range(3):
        optimizer.step()
        scheduler.step()


def without_a_least_rate() -> None:
    optimizer = sgd()
    plateau = schedules.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.1])
    optimizer.add_param_group({"params": parameters()})
    for _ in range(3):
        plateau.step(1.0)


@refusals(
    (lambda: schedules.StepLR(3, 1), TypeError, "int is not an Optimizer"),  # type: ignore[arg-type]
    (lambda: schedules.StepLR(sgd(), 1, last_epoch=3), KeyError, "in param_groups[0] when"),
    (lambda: schedules.LambdaLR(sgd(), [abs, abs]), ValueError, "Expected 1 lr_lambdas, but got 2"),
    (
        lambda: schedules.MultiplicativeLR(sgd(), 3),  # type: ignore[arg-type]
        TypeError,
        "lr_lambda should be a function, but got int",
    ),
    (lambda: schedules.ConstantLR(sgd(), 2), ValueError, "expected to be between 0 and 1."),
    (lambda: schedules.LinearLR(sgd(), 0), ValueError, "greater than 0 and less or equal to 1."),
    (lambda: schedules.LinearLR(sgd(), 1, 2), ValueError, "Ending multiplicative factor expected"),
    (
        lambda: schedules.CosineAnnealingWarmRestarts(sgd(), 0),
        ValueError,
        "Expected positive integer T_0, but got 0",
    ),
    (
        lambda: schedules.CosineAnnealingWarmRestarts(sgd(), 1, 0),
        ValueError,
        "Expected integer T_mult >= 1, but got 0",
    ),
    (
        lambda: schedules.CosineAnnealingWarmRestarts(sgd(), 1, 1, "0"),  # type: ignore[arg-type]
        ValueError,
        "Expected float or int eta_min, but got 0 of type",
    ),
    (
        lambda: schedules.CosineAnnealingWarmRestarts(sgd(), 1).step(-1),
        ValueError,
        "Expected non-negative epoch, but got -1",
    ),
    (
        lambda: schedules.CyclicLR(sgd(), 0.1, 0.2, mode="x"),
        ValueError,
        "mode is invalid and scale_fn is None",
    ),
    (
        lambda: schedules.CyclicLR(made("Adagrad"), 0.1, 0.2),
        ValueError,
        "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
    ),
    (
        lambda: schedules.CyclicLR(sgd(), [0.1, 0.2], 0.2),
        ValueError,
        "base_lr must have the same length as optimizer.param_groups. base_lr has 2 values",
    ),
    (lambda: schedules.OneCycleLR(sgd(), 0.1), ValueError, "You must define either total_steps"),
    (lambda: schedules.OneCycleLR(sgd(), 0.1, 0), ValueError, "total_steps, but got 0"),
    (
        lambda: schedules.OneCycleLR(sgd(), 0.1, epochs=0, steps_per_epoch=1),
        ValueError,
        "Expected positive integer epochs, but got 0",
    ),
    (
        lambda: schedules.OneCycleLR(sgd(), 0.1, epochs=1, steps_per_epoch=0),
        ValueError,
        "Expected positive integer steps_per_epoch, but got 0",
    ),
    (lambda: schedules.OneCycleLR(sgd(), 0.1, 9, pct_start=2.0), ValueError, "between 0 and 1 pct"),
    (
        lambda: schedules.OneCycleLR(sgd(), 0.1, 9, anneal_strategy="x"),
        ValueError,
        "anneal_strategy must be one of 'cos' or 'linear', instead got x",
    ),
    (beyond_the_end, ValueError, "Tried to step 3 times. The specified number of total steps is 2"),
    (chained, ValueError, "expects at least one scheduler to be chained, but got no scheduler."),
    (lambda: chained(schedules.StepLR(sgd(), 1), 3), TypeError, "at index 1 should have `optimize"),
    (
        lambda: chained(schedules.ReduceLROnPlateau(sgd())),
        ValueError,
        "does not support `ReduceLROnPlateau` scheduler",
    ),
    (
        lambda: chained(schedules.StepLR(sgd(), 1), schedules.StepLR(sgd(), 1)),
        ValueError,
        "expects all schedulers to belong to the same optimizer",
    ),
    (sequential, ValueError, "expects at least one scheduler, but got no scheduler."),
    (
        lambda: sequential(schedules.StepLR(sgd(), 1), milestones=[1]),
        ValueError,
        "to be one more than the number of milestone points",
    ),
    (
        lambda: schedules.ReduceLROnPlateau(sgd(), factor=2),
        ValueError,
        "Factor should be < 1.0.",
    ),
    (lambda: schedules.ReduceLROnPlateau(3), TypeError, "int is not an Optimizer"),  # type: ignore[arg-type]
    (lambda: schedules.ReduceLROnPlateau(sgd(), "up"), ValueError, "mode up is unknown!"),
    (
        lambda: schedules.ReduceLROnPlateau(sgd(), threshold_mode="up"),
        ValueError,
        "threshold mode up is unknown!",
    ),
    (
        lambda: schedules.ReduceLROnPlateau(sgd(), min_lr=[1, 2]),
        ValueError,
        "expected 1 min_lrs, got 2",
    ),
    (without_a_least_rate, RuntimeError, "Please modify the `min_lrs` field to match the length"),
)
def test_schedules(row: Row) -> None:
    check(row)


def test_base_classes_have_no_rule() -> None:
    with pytest.raises(NotImplementedError):
        optim.Optimizer(parameters(), {}).step()
    with pytest.raises(NotImplementedError):
        schedules.LRScheduler(sgd())


def test_hooks_return_arguments_or_nothing() -> None:
    optimizer = sgd()
    optimizer.register_step_pre_hook(lambda *a: 3)
    with pytest.raises(RuntimeError, match=r"a tuple of \(new_args, new_kwargs\), but got 3"):
        optimizer.step()


def test_a_parameter_listed_twice_is_told() -> None:
    p = parameters()
    with pytest.warns(UserWarning, match="a parameter group with duplicate parameters"):
        optim.SGD([*p, *p])
