"""Optimisers and schedules that people write themselves: Lion, SAM, Lookahead, LARS, warm-up."""

import math
from collections import defaultdict

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, _LRScheduler
from torch.optim.optimizer import Optimizer

torch.manual_seed(3)


class Lion(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                beta1, beta2 = group["betas"]
                update = state["exp_avg"] * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-group["lr"])
                state["exp_avg"].mul_(beta2).add_(p.grad, alpha=1 - beta2)
        return loss


class SAM(Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def first_step(self):
        norm = torch.norm(
            torch.stack([p.grad.norm(p=2) for g in self.param_groups for p in g["params"]]), p=2
        )
        for group in self.param_groups:
            for p in group["params"]:
                e = p.grad * (group["rho"] / (norm + 1e-12))
                self.state[p]["old"] = p.data.clone()
                p.add_(e)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base_optimizer.step()
        self.zero_grad()

    def step(self, closure):
        closure = torch.enable_grad()(closure)
        loss = closure()
        self.first_step()
        closure()
        self.second_step()
        return loss


class Lookahead:
    def __init__(self, optimizer, k=3, alpha=0.5):
        self.optimizer, self.k, self.alpha = optimizer, k, alpha
        self.param_groups, self.defaults = optimizer.param_groups, optimizer.defaults
        self.state = defaultdict(dict)
        self.counter = 0
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["slow"] = p.detach().clone()

    def step(self, closure=None):
        loss = self.optimizer.step(closure)
        self.counter += 1
        if self.counter % self.k == 0:
            for group in self.param_groups:
                for p in group["params"]:
                    slow = self.state[p]["slow"]
                    slow.lerp_(p.data, self.alpha)
                    p.data.copy_(slow)
        return loss

    def zero_grad(self):
        self.optimizer.zero_grad()


class Warmup(_LRScheduler):
    def __init__(self, optimizer, warmup, total, last_epoch=-1):
        self.warmup, self.total = warmup, total
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        step = self.last_epoch
        if step < self.warmup:
            return [base * (step + 1) / self.warmup for base in self.base_lrs]
        progress = (step - self.warmup) / (self.total - self.warmup)
        return [base * 0.5 * (1 + math.cos(math.pi * progress)) for base in self.base_lrs]


x = torch.randn(64, 4)
y = (x**2).sum(1, keepdim=True)


def train(name, make, steps=12, closure_style=False):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 1))
    opt = make(net.parameters())
    inner = getattr(opt, "optimizer", getattr(opt, "base_optimizer", opt))
    sched = Warmup(inner, 3, steps)
    rates = []
    for _ in range(steps):

        def closure():
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            return loss

        if closure_style:
            loss = opt.step(closure)
        else:
            loss = closure()
            opt.step()
        rates.append(sched.get_last_lr()[0])
        sched.step()
    print(f"{name:10s} {loss.item():.4f} {rates[0]:.4f} {rates[-1]:.4f}")
    return net, opt


net, lion = train("lion", lambda p: Lion(p, lr=1e-2, weight_decay=0.01))
train("sam", lambda p: SAM(p, torch.optim.SGD, lr=0.05, momentum=0.9), closure_style=True)
train("lookahead", lambda p: Lookahead(torch.optim.Adam(p, lr=0.02)))
print(lion)
state = lion.state_dict()
print(sorted(state["state"][0]), state["param_groups"][0]["betas"], len(state["state"]))
again = Lion(net.parameters())
again.load_state_dict(state)
print(torch.equal(again.state[net[0].weight]["exp_avg"], lion.state[net[0].weight]["exp_avg"]))
print(again.param_groups[0]["lr"] == lion.param_groups[0]["lr"], issubclass(Warmup, LRScheduler))
groups = [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 1.0}]
opt = torch.optim.SGD(groups, lr=0.1)
sched = LambdaLR(opt, [lambda e: 0.9**e, lambda e: 1 / (e + 1)])
for _ in range(3):
    opt.step()
    sched.step()
print([round(v, 4) for v in sched.get_last_lr()], sched.state_dict()["last_epoch"])
try:
    Lion([{"params": [torch.zeros(1)]}, {"params": "no"}])
except TypeError as error:
    print(str(error)[:50])
try:
    Lion([torch.zeros(2, requires_grad=True) * 2])
except ValueError as error:
    print(error)
