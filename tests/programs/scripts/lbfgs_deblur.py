"""LBFGS with closures on an inverse problem, and the optimisers' shared machinery."""

import torch
import torch.nn as nn

torch.manual_seed(8)
torch.set_default_dtype(torch.float64)
torch.set_printoptions(precision=3, sci_mode=False)
kernel = torch.hann_window(7, periodic=False)
kernel = (kernel / kernel.sum())[None, None]
truth = torch.zeros(1, 1, 64)
truth[..., 20:30] = 1
truth[..., 45] = 2
blurred = nn.functional.conv1d(truth, kernel, padding="same") + 0.01 * torch.randn(1, 1, 64)
estimate = nn.Parameter(torch.zeros_like(truth))
opt = torch.optim.LBFGS([estimate], max_iter=20, history_size=10, tolerance_change=1e-9)
calls = 0


def closure():
    global calls
    calls += 1
    opt.zero_grad()
    fit = (nn.functional.conv1d(estimate, kernel, padding="same") - blurred).square().sum()
    tv = (torch.diff(estimate) ** 2 + 1e-4).sqrt().sum()
    loss = fit + 0.02 * tv
    if loss.requires_grad:
        loss.backward()
    return loss


for _ in range(3):
    loss = opt.step(closure)
    print(f"{loss.item():.4f} {calls}")
print(estimate.detach()[0, 0, 18:32:2])

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
decay, no_decay = [], []
for name, p in net.named_parameters():
    (no_decay if name.endswith("bias") else decay).append(p)
opt = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0, "lr": 0.02}],
    lr=0.01,
)
print(opt)
warm = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=5)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=15)
sched = torch.optim.lr_scheduler.SequentialLR(opt, [warm, cosine], milestones=[5])
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=2, factor=0.5)
opt.register_step_post_hook(lambda o, args, kwargs: steps.append(1))
steps = []
x = torch.randn(32, 4)
y = x[:, :1] * x[:, 1:2]
for i in range(12):
    opt.zero_grad()
    loss = nn.functional.huber_loss(net(x), y)
    loss.backward()
    opt.step()
    sched.step()
    if i % 4 == 0:
        print(f"{i} {loss.item():.4f}", ["%.5f" % g["lr"] for g in opt.param_groups])
for value in (1.0, 1.0, 1.0, 1.0, 1.0):
    plateau.step(value)
print(["%.5f" % lr for lr in plateau.get_last_lr()], len(steps))
state = opt.state_dict()
print(sorted(state), state["param_groups"][1]["params"], sorted(state["state"][0]))
other = torch.optim.AdamW(
    [{"params": decay}, {"params": no_decay}],
)
other.load_state_dict(state)
print(other.param_groups[0]["weight_decay"], int(other.state[decay[0]]["step"]))
opt.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
print(len(opt.param_groups), opt.defaults["betas"])
for bad in ({"lr": -1}, {"betas": (1.5, 0.9)}):
    try:
        torch.optim.Adam(net.parameters(), **bad)
    except ValueError as error:
        print(error)
