"""A dataset of its own, loaded by processes, with a sampler and a collate function."""

import torch
from torch.utils.data import DataLoader, Dataset, Subset, WeightedRandomSampler, random_split


class Squares(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"x": torch.full((i % 3 + 1,), float(i)), "y": i * i}


def collate(items):
    width = max(len(item["x"]) for item in items)
    x = torch.zeros(len(items), width)
    for k, item in enumerate(items):
        x[k, : len(item["x"])] = item["x"]
    return x, torch.tensor([item["y"] for item in items])


def main():
    torch.manual_seed(0)
    train, test = random_split(Squares(30), [24, 6], generator=torch.Generator().manual_seed(1))
    print(sorted(test.indices))
    for x, y in DataLoader(train, batch_size=6, shuffle=True, num_workers=2, collate_fn=collate):
        print(tuple(x.shape), y.tolist())
    sampler = WeightedRandomSampler(
        [1.0] * 5 + [5.0] * 5, num_samples=8, generator=torch.Generator().manual_seed(2)
    )
    for batch in DataLoader(
        Subset(Squares(30), list(range(0, 30, 3))),
        batch_size=4,
        sampler=sampler,
        collate_fn=collate,
        drop_last=True,
    ):
        print(batch[1].tolist())


if __name__ == "__main__":
    main()
