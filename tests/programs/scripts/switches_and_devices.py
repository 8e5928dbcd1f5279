"""Scripts that script, trace, compile and time: the same function every way."""

import time
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.use_deterministic_algorithms(True)
torch.set_float32_matmul_precision("high")
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.backends.mps.is_available())
device = (
    "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
)


@torch.jit.script
def fused_gelu(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / 1.41421))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 2)

    @torch.jit.ignore
    def note(self):
        return "note"

    def forward(self, x):
        return self.fc2(fused_gelu(self.fc1(x)))


net = Net().to(device)
x = torch.randn(3, 4, device=device)
plain = net(x)
traced = torch.jit.trace(net, x)
scripted = torch.jit.script(net)
print(torch.allclose(traced(x), plain), torch.allclose(scripted(x), plain), net.note())


@torch.no_grad()
def evaluate(m, x):
    m.eval()
    return m(x).argmax(-1)


print(evaluate(net, x).shape, torch.is_grad_enabled())


def wall(f, n=3):
    best = float("inf")
    for _ in range(n):
        start = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - start)
    return best


print(wall(lambda: net(x)) > 0)
net.half().float().double()
print(next(net.parameters()).dtype, next(net.parameters()).device, next(net.buffers(), None))
net = net.to(dtype=torch.float32, memory_format=torch.contiguous_format)
with torch.device("cpu"):
    print(torch.zeros(2).device, torch.get_default_device())
with torch.random.fork_rng():
    torch.manual_seed(1)
    a = torch.rand(2)
torch.manual_seed(1)
print(torch.equal(a, torch.rand(2)))
print(
    torch.finfo(torch.bfloat16).eps,
    torch.iinfo(torch.int8).max,
    torch.promote_types(torch.int8, torch.half),
)
y = F.one_hot(torch.tensor([0, 2]), 3).float()
print(
    y, torch.result_type(y, 1), y.stride(), y.is_contiguous(memory_format=torch.contiguous_format)
)
print(torch.__version__.split(".")[0], torch.version.cuda is None or True)
print(isinstance(torch.get_num_threads(), int), torch.is_tensor(x), torch.numel(x))
with torch.set_grad_enabled(False), torch.autograd.set_detect_anomaly(True):
    print((net(x)).requires_grad)
