"""A hand-written trainer in Lightning's style, with callbacks, logging and typed configs."""

import abc
import argparse
import dataclasses
import itertools
import json
import os
import random
import tempfile
import typing as t
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parameter import Parameter
from torch.optim.lr_scheduler import LRScheduler, StepLR
from torch.utils.data import DataLoader, TensorDataset


@dataclasses.dataclass
class Config:
    lr: float = 1e-2
    hidden: t.Tuple[int, ...] = (16, 8)
    epochs: int = 3
    seed: int = 0
    device: str = "cuda" if torch.cuda.is_available() else "cpu"


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    os.environ["PYTHONHASHSEED"] = str(seed)


class Callback:
    def on_epoch_end(self, trainer, logs): ...


class History(Callback):
    def __init__(self):
        self.rows: t.List[t.Dict[str, float]] = []

    def on_epoch_end(self, trainer, logs):
        self.rows.append({k: round(float(v), 3) for k, v in logs.items()})


class EarlyStopping(Callback):
    def __init__(self, patience=1):
        self.best, self.wait, self.patience = float("inf"), 0, patience

    def on_epoch_end(self, trainer, logs):
        if logs["val"] < self.best - 1e-4:
            self.best, self.wait = logs["val"], 0
        else:
            self.wait += 1
            trainer.stop |= self.wait > self.patience


class Module(nn.Module, abc.ABC):
    @abc.abstractmethod
    def training_step(self, batch): ...
    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


class Net(Module):
    def __init__(self, sizes: t.Sequence[int], act: t.Type[nn.Module] = nn.ReLU):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.acts = nn.ModuleDict({f"a{i}": act() for i in range(len(self.layers) - 1)})
        self.register_buffer("steps", torch.tensor(0, dtype=torch.long))
        self.scale: Parameter = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if f"a{i}" in self.acts:
                x = self.acts[f"a{i}"](x)
        return x * self.scale

    def training_step(self, batch):
        x, y = batch
        self.steps += 1
        return F.cross_entropy(self(x), y)


class Trainer:
    def __init__(self, cfg, callbacks=()):
        self.cfg, self.callbacks, self.stop = cfg, list(callbacks), False

    def fit(self, net, train, val):
        opt = torch.optim.Adam(net.parameters(), lr=self.cfg.lr, eps=1e-7)
        sched: LRScheduler = StepLR(opt, 1, 0.5)
        for epoch in range(self.cfg.epochs):
            net.train()
            total = 0.0
            for batch in train:
                batch = [b.to(net.device, non_blocking=True) for b in batch]
                loss = net.training_step(batch)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.detach()
            sched.step()
            net.eval()
            with torch.no_grad():
                value = torch.stack([net.training_step(b) for b in val]).mean()
            logs = {"train": total / len(train), "val": value, "lr": sched.get_last_lr()[0]}
            for c in self.callbacks:
                c.on_epoch_end(self, logs)
            if self.stop:
                break
        return opt


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
args = parser.parse_args([])
cfg = Config(epochs=args.epochs)
seed_everything(cfg.seed)
X = torch.randn(120, 5)
Y = (X[:, 0] * X[:, 1] > 0).long()
train = DataLoader(
    TensorDataset(X[:90], Y[:90]), 15, shuffle=True, generator=torch.Generator().manual_seed(1)
)
val = DataLoader(TensorDataset(X[90:], Y[90:]), 30)
net = Net([5, *cfg.hidden, 2])
history = History()
opt = Trainer(cfg, [history, EarlyStopping()]).fit(net, train, val)
print(json.dumps(history.rows))
print(int(net.steps), {k: tuple(v.shape) for k, v in net.state_dict().items()})
print(
    json.dumps(dataclasses.asdict(cfg), default=str),
    net.extra_repr() == "",
    sum(p.numel() for p in net.parameters()),
)
with tempfile.TemporaryDirectory() as d:
    p = Path(d) / "ckpt.pt"
    torch.save(
        {
            "state": net.state_dict(),
            "opt": opt.state_dict(),
            "cfg": dataclasses.asdict(cfg),
            "hist": history.rows,
        },
        p,
    )
    ck = torch.load(p, weights_only=True)
    other = Net([5, *ck["cfg"]["hidden"], 2])
    print(other.load_state_dict(ck["state"], strict=True))
    print(torch.equal(other(X), net(X)), ck["hist"][-1], p.stat().st_size > 0)
missing = other.load_state_dict(
    {k: v for k, v in ck["state"].items() if "layers.0" not in k}, strict=False
)
print(missing)
for name, child in net.named_children():
    print(name, type(child).__name__)
print(
    [n for n, _ in net.named_modules()][:5],
    net.get_submodule("layers.1"),
    net.get_parameter("layers.0.bias").shape,
    net.get_buffer("steps"),
)
print(
    isinstance(train.sampler, torch.utils.data.RandomSampler),
    train.batch_sampler.batch_size,
    len(train.dataset),
    opt.param_groups[0].keys() >= {"lr", "betas"},
)
