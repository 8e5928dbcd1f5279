"""Train a small classifier with DDP.

    torchrun --nproc_per_node=2 classifier.py --epochs 3
"""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def setup():
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend=backend, init_method="env://")
    torch.manual_seed(42)


def cleanup():
    dist.destroy_process_group()


def make_dataset(n=512):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, 20, generator=g)
    w = torch.randn(20, 4, generator=g)
    return TensorDataset(x, (x @ w).argmax(dim=1))


class Trainer:
    def __init__(self, model, loader, sampler, optimizer, device, path):
        self.rank = int(os.environ["RANK"])
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.device = device
        self.loader, self.sampler, self.optimizer, self.path = loader, sampler, optimizer, path
        self.model = DDP(model.to(device), device_ids=[self.local_rank] if device.type == "cuda" else None)
        self.criterion = nn.CrossEntropyLoss()

    def run_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        total = torch.zeros(2, device=self.device)
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            out = self.model(x)
            loss = self.criterion(out, y)
            loss.backward()
            self.optimizer.step()
            total += torch.tensor([loss.item() * len(x), float(len(x))])
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        return (total[0] / total[1]).item()

    def save(self, epoch):
        if self.rank == 0:
            torch.save({"model": self.model.module.state_dict(), "epoch": epoch}, self.path)
        dist.barrier()

    def load(self):
        snapshot = torch.load(self.path, map_location=self.device)
        self.model.module.load_state_dict(snapshot["model"])
        return snapshot["epoch"]


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    setup()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = make_dataset()
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=True)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, num_workers=0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.0), nn.Linear(64, 4))
    path = [os.path.join(tempfile.gettempdir(), f"snapshot-{os.getpid()}.pt")]
    dist.broadcast_object_list(path, src=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    trainer = Trainer(model, loader, sampler, optimizer, device, path[0])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    for epoch in range(args.epochs):
        loss = trainer.run_epoch(epoch)
        scheduler.step()
        trainer.save(epoch)
        if rank == 0:
            print(f"epoch {epoch} | loss {loss:.4f} | lr {scheduler.get_last_lr()[0]:.5f}")
    last = trainer.load()
    dist.barrier()
    if rank == 0:
        os.unlink(path[0])
        print(f"resumed from epoch {last}, {len(loader)} batches per rank")
    cleanup()


if __name__ == "__main__":
    main()
