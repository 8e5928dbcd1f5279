"""Mixed precision with a GradScaler, accumulation, clipping and a resumed run."""

import copy
import io

import torch
from torch import nn
from torch.amp import GradScaler, autocast

torch.manual_seed(2)
device_type = "cpu"
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.GroupNorm(2, 8),
    nn.SiLU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
    nn.LayerNorm(32),
    nn.Linear(32, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=4, T_mult=2)
scaler = GradScaler(device_type, init_scale=2.0**10, growth_interval=3)
data = [(torch.randn(8, 3, 8, 8), torch.randint(10, (8,))) for _ in range(6)]
accumulate = 2


def train_epoch(epoch):
    total = 0.0
    for i, (x, y) in enumerate(data):
        with autocast(device_type=device_type, dtype=torch.bfloat16, enabled=True):
            out = model(x)
            loss = nn.functional.cross_entropy(out, y) / accumulate
            kinds = (model[0](x).dtype, out.dtype, loss.dtype)
        scaler.scale(loss).backward()
        total += loss.item() * accumulate
        if (i + 1) % accumulate == 0:
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step(epoch + i / len(data))
    print(epoch, kinds, f"{total / len(data):.2f} {norm:.2f}", scaler.get_scale())


for epoch in range(2):
    train_epoch(epoch)
buffer = io.BytesIO()
torch.save(
    {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "scaler": scaler.state_dict(),
        "rng": torch.get_rng_state(),
    },
    buffer,
)
before = copy.deepcopy(model.state_dict())
train_epoch(2)
after = {k: v.clone() for k, v in model.state_dict().items()}
buffer.seek(0)
saved = torch.load(buffer, map_location="cpu", weights_only=True)
print(model.load_state_dict(saved["model"]))
optimizer.load_state_dict(saved["optimizer"])
scheduler.load_state_dict(saved["scheduler"])
scaler.load_state_dict(saved["scaler"])
torch.set_rng_state(saved["rng"])
print(all(torch.equal(before[k], v) for k, v in model.state_dict().items()))
train_epoch(2)
print(all(torch.equal(after[k], v) for k, v in model.state_dict().items()))
# an infinite gradient: the step is skipped and the scale halved
weight = model[0].weight.detach().clone()
scaler.scale(model(data[0][0]).sum() * float("inf")).backward()
scaler.step(optimizer)
scaler.update()
print(
    torch.equal(weight, model[0].weight), scaler.get_scale(), scaler.state_dict()["_growth_tracker"]
)


class Square(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


with torch.autocast("cpu"):
    h = torch.mm(torch.ones(2, 2, requires_grad=True), torch.ones(2, 2))
    print(h.dtype, Square.apply(h).dtype, torch.is_autocast_enabled("cpu"))
    with torch.autocast("cpu", enabled=False):
        print(torch.mm(h.float(), h.float()).dtype, torch.get_autocast_dtype("cpu"))
