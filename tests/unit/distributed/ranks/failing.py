"""`failing.py HOW`: the last rank fails in one of several ways while the others wait for it."""

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

how = sys.argv[1]
if how == "before":
    raise ImportError("nothing has begun")
dist.init_process_group("gloo", timeout=timedelta(seconds=300 if how.startswith("leave") else 1.5))
rank, last = dist.get_rank(), dist.get_rank() == dist.get_world_size() - 1
dist.barrier()
with open("/proc/self/maps") as maps:
    shared = " ".join({line.split()[5] for line in maps if " /dev/shm/" in line})
print(f"rank {rank} is process {os.getpid()}, shares {shared}", flush=True)
dist.barrier()
if last:
    if how == "raise":
        raise ValueError("the last rank has bad data")
    if how == "exit":
        sys.exit(7)
    if how.startswith("leave"):
        if how == "leave the group":
            dist.destroy_process_group()
        sys.exit()
    if how == "quit":
        os._exit(3)
    if how == "kill with a child":
        os.system("sleep 61 & echo rank 9 is process $!, shares nothing")
    if how.startswith("kill"):
        os.kill(os.getpid(), 9)
    if how == "crash":
        os.abort()
    if how.startswith("never"):
        time.sleep(60)
if how == "sleep":
    time.sleep(60)
if how == "never message":
    dist.recv(torch.zeros(1), src=dist.get_world_size() - 1)
if how == "never long":
    dist.all_reduce(torch.zeros(100_000))
if how == "different":
    dist.all_reduce(torch.zeros(200_000 if last else 100_000))
if how == "never caught":
    try:
        dist.all_reduce(torch.zeros(1), async_op=True).wait()
    except dist.DistBackendError as error:
        print(f"caught: {error}", flush=True)
        raise SystemExit(5) from None
dist.all_reduce(torch.zeros(1))
