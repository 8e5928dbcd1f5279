"""Points of Sobol's sequence, segments, futures, weak keys, conditions and switches."""

import warnings

import torch
from torch.nn.modules.batchnorm import LazyBatchNorm1d
from torch.nn.modules.instancenorm import InstanceNorm2d
from torch.utils.weak import WeakIdKeyDictionary

warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
warnings.simplefilter("ignore")

plain = torch.quasirandom.SobolEngine(3)
print(plain.draw(5), plain, plain.draw(2), plain.fast_forward(4).draw(2))
print(plain.reset().draw(2, dtype=torch.float64), plain.num_generated)
scrambled = torch.quasirandom.SobolEngine(5, scramble=True, seed=7)
print(scrambled.draw_base2(3), scrambled)
torch.manual_seed(3)
print(torch.quasirandom.SobolEngine(2, scramble=True).draw(2), torch.rand(1))
points = torch.quasirandom.SobolEngine(2).draw(1024)
print("pi", 4 * (points.square().sum(1) < 1).float().mean().item())

x = torch.arange(12.0).view(6, 2).requires_grad_()
for how in ("sum", "mean", "max", "min", "prod"):
    begun = torch.segment_reduce(x, how, lengths=torch.tensor([2, 0, 4]), initial=1.5)
    out = torch.segment_reduce(x, how, lengths=torch.tensor([2, 3, 1]), axis=0)
    print(how, begun.detach(), out.detach(), torch.autograd.grad(out.sum(), x)[0])
offsets = torch.tensor([[0, 1, 4], [0, 2, 4]])
print(torch.segment_reduce(torch.arange(8.0).view(2, 4), "sum", offsets=offsets, axis=1))

adjacency = torch.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
print(torch.spmm(adjacency, torch.tensor([[3.0, 1.0], [2.0, 5.0]])))
print(isinstance(torch.max(x, 0), torch.return_types.max), torch.return_types.topk.__name__)
print(isinstance(3, torch.SymInt), isinstance(InstanceNorm2d(3), torch.nn.Module))
print(LazyBatchNorm1d())

try:
    torch._check(1 > 2, lambda: "one is less than two")
except RuntimeError as error:
    print(error)
torch.backends.cuda.enable_flash_sdp(False)
print(torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled())
with torch.backends.cuda.sdp_kernel(enable_flash=False, enable_mem_efficient=False):
    print(torch.backends.cuda.mem_efficient_sdp_enabled())

notes = WeakIdKeyDictionary()
key = torch.ones(2)
notes[key] = 3
print(notes[key], len(notes), key in notes, torch.ones(2) in notes)
del key
print(len(notes))
first = torch.futures.Future()
second = first.then(lambda done: done.wait() + 1)
first.set_result(4)
print(second.wait(), torch.futures.wait_all([first, second]), first.done())
with torch.compiler.set_stance("force_eager"):
    print(torch.compiler.allow_in_graph(len) is len)
