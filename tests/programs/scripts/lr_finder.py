"""An LR range test, cyclical rates, early stopping, model averaging and checkpoints on disk."""

import copy
import math
import os
import shutil
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

torch.manual_seed(12)


class LRFinder:
    def __init__(self, model, optimizer, criterion):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion
        self.history = {"lr": [], "loss": []}
        self.memory = (copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()))

    def range_test(self, loader, end_lr, num_iter, smooth=0.05, diverge=5):
        start = self.optimizer.param_groups[0]["lr"]
        gamma = (end_lr / start) ** (1 / num_iter)
        schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma)
        best = math.inf
        for i, (x, y) in zip(range(num_iter), loader):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.history["lr"].append(schedule.get_last_lr()[0])
            schedule.step()
            value = loss.item()
            if i:
                value = smooth * value + (1 - smooth) * self.history["loss"][-1]
            best = min(best, value)
            self.history["loss"].append(value)
            if value > diverge * best:
                break

    def reset(self):
        self.model.load_state_dict(self.memory[0])
        self.optimizer.load_state_dict(self.memory[1])


def save_checkpoint(state, is_best, folder):
    path = folder / "checkpoint.pth.tar"
    torch.save(state, path)
    if is_best:
        shutil.copyfile(path, folder / "model_best.pth.tar")


model = nn.Sequential(
    nn.Linear(8, 16), nn.BatchNorm1d(16), nn.PReLU(), nn.Dropout(0.2), nn.Linear(16, 3)
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]))
centre = torch.randn(3, 8)
labels = torch.randint(3, (96,))
data = torch.utils.data.TensorDataset(centre[labels] + 0.7 * torch.randn(96, 8), labels)
train, valid = torch.utils.data.random_split(data, [72, 24])
loader = torch.utils.data.DataLoader(train, batch_size=12, shuffle=True)
finder = LRFinder(model, optimizer, criterion)
finder.range_test([b for _ in range(5) for b in loader], end_lr=5, num_iter=30)
slope = torch.gradient(torch.tensor(finder.history["loss"]))[0]
print(len(slope), int(slope.argmin()), f"{finder.history['lr'][int(slope.argmin())]:.5f}")
finder.reset()
print(optimizer.param_groups[0]["lr"])

for group in optimizer.param_groups:
    group["lr"] = 0.05
cyclic = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=4, mode="triangular2")
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
swa = AveragedModel(model)
swa_lr = SWALR(optimizer, swa_lr=0.02, anneal_epochs=2)
folder = Path(tempfile.mkdtemp())
best, wait = math.inf, 0
for epoch in range(8):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        ema.update_parameters(model)
        if epoch < 5:
            cyclic.step()
    if epoch >= 5:
        swa.update_parameters(model)
        swa_lr.step()
    model.eval()
    with torch.no_grad():
        x, y = valid[:]
        value = criterion(model(x), y).item()
        hits = (model(x).argmax(1) == y).float().mean().item()
    is_best = value < best
    best, wait = (value, 0) if is_best else (best, wait + 1)
    save_checkpoint(
        {
            "epoch": epoch + 1,
            "arch": "mlp",
            "state_dict": model.state_dict(),
            "best": best,
            "optimizer": optimizer.state_dict(),
        },
        is_best,
        folder,
    )
    rate = optimizer.param_groups[0]["lr"]
    print(f"{epoch} {value:.3f} {hits:.2f} {'*' if is_best else ''} {rate:.4f}")
    if wait > 3:
        break
update_bn(loader, swa)
with torch.no_grad():
    print(
        f"{criterion(ema.eval()(x), y):.3f} {criterion(swa.eval()(x), y):.3f} {int(swa.n_averaged)}"
    )
checkpoint = torch.load(folder / "model_best.pth.tar", weights_only=True)
print(sorted(checkpoint), checkpoint["arch"], os.path.getsize(folder / "checkpoint.pth.tar") > 1000)
model.load_state_dict(checkpoint["state_dict"])
print(sorted(p.name for p in folder.iterdir()))
shutil.rmtree(folder)
