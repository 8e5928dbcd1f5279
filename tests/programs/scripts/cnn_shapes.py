"""A small convolutional network tells bars from crosses."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def images(count, generator):
    x = 0.1 * torch.randn(count, 1, 12, 12, generator=generator)
    y = torch.randint(0, 3, (count,), generator=generator)
    for i in range(count):
        k = int(torch.randint(2, 10, (1,), generator=generator))
        if y[i] != 0:
            x[i, 0, k, :] += 1.0
        if y[i] != 1:
            x[i, 0, :, k] += 1.0
    return x, y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


torch.manual_seed(1)
g = torch.Generator().manual_seed(7)
x, y = images(240, g)
loader = DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True)
net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    net.train()
    total = 0.0
    for images_, labels in loader:
        optimizer.zero_grad()
        loss = criterion(net(images_), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    print(f"epoch {epoch} loss {total / len(x):.2f}")
net.eval()
xt, yt = images(60, g)
with torch.no_grad():
    accuracy = (net(xt).argmax(1) == yt).float().mean().item()
print("accuracy above 0.9:", accuracy > 0.9)
