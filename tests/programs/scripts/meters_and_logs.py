"""Logs of a run; the summary writer if there is one."""

import glob
import tempfile

import torch
from torch import nn

torch.manual_seed(0)
folder = tempfile.mkdtemp()
try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    SummaryWriter = None


class Meter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        return [
            correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0))
            for k in topk
        ]


writer = SummaryWriter(log_dir=folder) if SummaryWriter else None
model = nn.Linear(10, 5)
opt = torch.optim.SGD(model.parameters(), lr=0.5)
losses, top1, top3 = Meter("Loss", ":.4f"), Meter("Acc@1", ":6.2f"), Meter("Acc@3", ":6.2f")
x, y = torch.randn(64, 10), torch.randint(0, 5, (64,))
for step in range(10):
    out = model(x)
    loss = nn.functional.nll_loss(out.log_softmax(1), y)
    a1, a3 = accuracy(out, y, (1, 3))
    losses.update(loss.item(), len(x))
    top1.update(a1[0].item(), len(x))
    top3.update(a3.item(), len(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if writer:
        writer.add_scalar("loss", loss, step)
        writer.add_scalars("acc", {"top1": a1, "top3": a3.item()}, step)
        writer.add_histogram("weight", model.weight, step)
        writer.add_histogram("grad", model.weight.grad, step, bins="auto")
print(losses, top1, top3)
confusion = torch.zeros(5, 5, dtype=torch.int64)
confusion.index_put_((y, model(x).argmax(1)), torch.ones_like(y), accumulate=True)
print(confusion, confusion.diag().sum() / confusion.sum())
print(torch.bincount(y, minlength=6), torch.histc(x, 4, -2, 2), torch.unique(y, return_counts=True))
if writer:
    writer.add_image("noise", torch.rand(3, 4, 4), 0)
    writer.add_text("note", "done")
    writer.add_hparams({"lr": 0.5}, {"loss": losses.avg})
    writer.flush()
    writer.close()
    print(len(glob.glob(folder + "/**/events*", recursive=True)) > 0)
