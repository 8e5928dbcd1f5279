"""The profiler: schedules, traces, tables; benchmark timers; anomaly mode; memory of graphs."""

import json
import os
import tempfile

import torch
import torch.nn as nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.benchmark import Timer

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 16)
folder = tempfile.mkdtemp()
path = os.path.join(folder, "trace.json")
ready = []


def on_ready(p):
    ready.append(p.step_num)
    p.export_chrome_trace(path)


with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
    on_trace_ready=on_ready,
    record_shapes=True,
) as prof:
    for _ in range(5):
        with record_function("train_step"):
            opt.zero_grad()
            model(x).square().mean().backward()
            opt.step()
        prof.step()
print(ready)
with open(path) as file:
    trace = json.load(file)
names = {event.get("name") for event in trace["traceEvents"]}
print("train_step" in names, "aten::linear" in names or "aten::addmm" in names)

with profile(activities=[ProfilerActivity.CPU]) as prof:
    with record_function("inference"):
        model(x)
averages = prof.key_averages()
keys = [e.key for e in averages]
print("inference" in keys, [e.count for e in averages if e.key == "inference"])
table = averages.table(sort_by="cpu_time_total", row_limit=5)
print("Self CPU time total" in table, "Name" in table.splitlines()[1])
total = {e.key: e.cpu_time_total for e in averages}
print(total["inference"] > 0)
with torch.autograd.profiler.profile() as old:
    (x @ x.T).sum()
print(any("mm" in e.key for e in old.key_averages()), old.self_cpu_time_total > 0)
m = Timer(
    stmt="a + b", setup="a = torch.ones(10); b = torch.ones(10)", globals={"torch": torch}
).timeit(50)
print(m.mean > 0, m.number_per_run)
try:
    with torch.autograd.detect_anomaly(check_nan=True):
        z = torch.tensor([0.0], requires_grad=True)
        (torch.sqrt(z) * 0).sum().backward()
except RuntimeError as error:
    print(str(error)[:60])
graph = model(x).sum().grad_fn
seen, queue = set(), [graph]
while queue:
    node = queue.pop()
    if node is None or node in seen:
        continue
    seen.add(node)
    queue.extend(n for n, _ in node.next_functions)
names = {type(n).__name__ for n in seen}
print({"AccumulateGrad", "AddmmBackward0", "ReluBackward0", "SumBackward0"} <= names)
sizes = []
with torch.autograd.graph.saved_tensors_hooks(
    lambda t: (sizes.append(t.numel()), t)[1], lambda t: t
):
    model(x).sum().backward()
print(len(sizes) > 0)
with torch.autograd.graph.save_on_cpu():
    model(x).sum().backward()
