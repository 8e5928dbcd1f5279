"""Learning rates over time, one schedule after the other."""

import torch
from torch.optim import SGD, lr_scheduler


def rates(make, steps=12):
    p = torch.zeros(1, requires_grad=True)
    optimizer = SGD([p], lr=0.1)
    scheduler = make(optimizer)
    out = []
    for _ in range(steps):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return " ".join(f"{r:.5f}" for r in out)


print("step", rates(lambda o: lr_scheduler.StepLR(o, 4, 0.5)))
print("multi", rates(lambda o: lr_scheduler.MultiStepLR(o, [3, 7])))
print("exp", rates(lambda o: lr_scheduler.ExponentialLR(o, 0.8)))
print("cosine", rates(lambda o: lr_scheduler.CosineAnnealingLR(o, 6, 0.01)))
print("restarts", rates(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4, 2)))
print("one cycle", rates(lambda o: lr_scheduler.OneCycleLR(o, 0.5, total_steps=13)))
print("lambda", rates(lambda o: lr_scheduler.LambdaLR(o, lambda e: 1 / (1 + e))))
print(
    "warm",
    rates(
        lambda o: lr_scheduler.SequentialLR(
            o,
            [lr_scheduler.LinearLR(o, 0.1, total_iters=4), lr_scheduler.ExponentialLR(o, 0.9)],
            [4],
        )
    ),
)
print("poly", rates(lambda o: lr_scheduler.PolynomialLR(o, 10, 2.0)))
print(
    "cyclic",
    rates(lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="triangular2")),
)
p = torch.zeros(1, requires_grad=True)
optimizer = SGD([p], lr=1.0)
plateau = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=2)
for value in [5, 4, 4, 4, 4, 3, 3, 3, 3, 3]:
    plateau.step(value)
print("plateau", optimizer.param_groups[0]["lr"], plateau.num_bad_epochs)
