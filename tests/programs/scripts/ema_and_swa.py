"""Averages of weights: stochastic weight averaging and an exponential one."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

torch.manual_seed(0)
x = torch.randn(64, 5)
y = x @ torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0]) + 0.1 * torch.randn(64)
model = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
swa, ema = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
schedule = SWALR(optimizer, swa_lr=0.01, anneal_epochs=5)
for epoch in range(30):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x).squeeze(1), y)
    loss.backward()
    optimizer.step()
    ema.update_parameters(model)
    if epoch >= 15:
        swa.update_parameters(model)
        schedule.step()
update_bn([x], swa)
for name, m in (("model", model), ("swa", swa), ("ema", ema)):
    m.eval()
    with torch.no_grad():
        print(name, f"{nn.functional.mse_loss(m(x).squeeze(1), y).item():.3f}")
print(int(swa.n_averaged), f"{optimizer.param_groups[0]['lr']:.4f}")
