"""Datasets of ragged samples: custom collate, samplers, workers, iterable data."""

import os
import string
from collections import namedtuple

import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)

Batch = namedtuple("Batch", "tokens lengths labels")


class Words(Dataset):
    def __init__(self, words):
        self.words = words

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        word = self.words[i]
        return {"tokens": torch.tensor([ord(c) - 96 for c in word]), "label": len(word) % 2}


def collate(samples):
    samples = sorted(samples, key=lambda s: -len(s["tokens"]))
    tokens = torch.nn.utils.rnn.pad_sequence([s["tokens"] for s in samples], batch_first=True)
    lengths = torch.tensor([len(s["tokens"]) for s in samples])
    return Batch(tokens, lengths, torch.tensor([s["label"] for s in samples]))


class ByLength(Sampler):
    def __init__(self, words, size):
        self.order = sorted(range(len(words)), key=lambda i: len(words[i]))
        self.size = size

    def __iter__(self):
        batches = [self.order[i : i + self.size] for i in range(0, len(self.order), self.size)]
        for i in torch.randperm(len(batches)).tolist():
            yield batches[i]

    def __len__(self):
        return -(-len(self.order) // self.size)


class Stream(IterableDataset):
    def __init__(self, stop):
        self.stop = stop

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(first, self.stop, step)


def init_worker(worker_id):
    os.environ["WORKER"] = str(worker_id)
    assert torch.utils.data.get_worker_info().seed == torch.initial_seed()


class Noisy(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return i, torch.rand(1).item(), int(os.environ.get("WORKER", -1))


class Broken(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 3:
            raise KeyError("sample 3 is broken")
        return torch.tensor(i)


def main():
    torch.manual_seed(7)
    words = [string.ascii_lowercase[i % 5 : i % 5 + 2 + i % 4] for i in range(11)]
    for batch in DataLoader(Words(words), batch_size=4, shuffle=True, collate_fn=collate):
        print(batch.tokens.tolist(), batch.lengths.tolist(), batch.labels.tolist())
    loader = DataLoader(
        Words(words), batch_sampler=ByLength(words, 3), collate_fn=collate, num_workers=2
    )
    print(len(loader), [tuple(b.tokens.shape) for b in loader])
    print(sorted(v for b in DataLoader(Stream(9), batch_size=2, num_workers=2) for v in b.tolist()))
    g = torch.Generator().manual_seed(0)
    loader = DataLoader(
        Noisy(),
        batch_size=2,
        num_workers=2,
        worker_init_fn=init_worker,
        generator=g,
        persistent_workers=True,
        prefetch_factor=3,
        pin_memory=False,
    )
    for _ in range(2):
        for i, value, worker in loader:
            print(i.tolist(), [f"{v:.4f}" for v in value.tolist()], worker.tolist(), value.dtype)
    try:
        list(DataLoader(Broken(), batch_size=2, num_workers=1))
    except KeyError as error:
        print("KeyError", "sample 3 is broken" in str(error), "worker process 0" in str(error))
    a, b = random_split(TensorDataset(torch.arange(10.0)), [0.7, 0.3], generator=g)
    print(len(a), len(b), a.indices, isinstance(b, Subset))
    both = ConcatDataset([a, b])
    weights = torch.linspace(0.1, 1, len(both))
    sampler = WeightedRandomSampler(weights, 5, replacement=False, generator=g)
    print([x.tolist() for (x,) in DataLoader(both, sampler=sampler, batch_size=2, drop_last=True)])
    print(list(BatchSampler(RandomSampler(range(5), generator=g), 2, False)))
    print(default_collate([{"a": 1, "b": (2.0, "x")}, {"a": 3, "b": (4.0, "y")}]))


if __name__ == "__main__":
    main()
