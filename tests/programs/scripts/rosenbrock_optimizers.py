"""Every optimiser on one valley."""

import torch

OPTIMIZERS = {
    "SGD": dict(lr=1e-3, momentum=0.9, nesterov=True),
    "Adam": dict(lr=0.05),
    "AdamW": dict(lr=0.05),
    "NAdam": dict(lr=0.05),
    "RAdam": dict(lr=0.05),
    "Adamax": dict(lr=0.05),
    "Adagrad": dict(lr=0.3),
    "Adadelta": dict(lr=5.0),
    "RMSprop": dict(lr=0.01),
    "Rprop": dict(lr=0.01),
    "ASGD": dict(lr=1e-3),
    "LBFGS": dict(lr=0.5, line_search_fn="strong_wolfe"),
}
for name, options in OPTIMIZERS.items():
    p = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = getattr(torch.optim, name)([p], **options)

    def closure():
        optimizer.zero_grad()
        loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
        loss.backward()
        return loss

    for _ in range(40 if name != "LBFGS" else 4):
        loss = optimizer.step(closure)
    print(f"{name:9s} {loss.item():.4f} {p[0].item():.4f} {p[1].item():.4f}")
