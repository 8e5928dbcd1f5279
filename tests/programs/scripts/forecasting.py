"""A dilated causal network and an LSTM on a noisy series; scaling, windows, quantiles."""

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import weight_norm

torch.manual_seed(100)
np.random.seed(100)


class Chomp1d(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, : -self.size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, n_in, n_out, dilation, k=3):
        super().__init__()
        pad = (k - 1) * dilation
        self.net = nn.Sequential(
            weight_norm(nn.Conv1d(n_in, n_out, k, padding=pad, dilation=dilation)),
            Chomp1d(pad),
            nn.ReLU(),
            nn.Dropout1d(0.05),
        )
        self.down = nn.Conv1d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x):
        return torch.relu(self.net(x) + self.down(x))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.tcn = nn.Sequential(*[TemporalBlock(1 if d == 1 else 8, 8, d) for d in (1, 2, 4)])
        self.lstm = nn.LSTM(8, 12, num_layers=2, batch_first=True, dropout=0.1, proj_size=6)
        self.head = nn.Linear(6, 3)
        for name, p in self.lstm.named_parameters():
            if "weight_hh" in name:
                nn.init.orthogonal_(p)
            elif "bias" in name:
                p.data[p.size(0) // 4 : p.size(0) // 2].fill_(1.0)

    def forward(self, x):
        h = self.tcn(x.transpose(1, 2)).transpose(1, 2)
        out, (h, c) = self.lstm(h)
        return self.head(out[:, -1]), h, c


series = np.sin(np.arange(300) / 8) + 0.1 * np.random.randn(300)
series = torch.from_numpy(series.astype("float32"))
low, high = series.aminmax()
series = (series - low) / (high - low)
windows = series.unfold(0, 25, 3)
x, y = windows[:, :-1, None], windows[:, -1]
order = torch.randperm(len(x))
quantiles = torch.tensor([0.1, 0.5, 0.9])


def pinball(prediction, target):
    e = target[:, None] - prediction
    return torch.maximum(quantiles * e, (quantiles - 1) * e).mean()


model = Forecaster()
opt = torch.optim.Rprop(model.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[4, 8], gamma=0.5)
for epoch in range(6):
    prediction, h, c = model(x[order])
    loss = pinball(prediction, y[order])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    print(f"{epoch} {loss.item():.5f}", tuple(h.shape), tuple(c.shape))
model.eval()
with torch.no_grad():
    window = x[-1:].clone()
    future = []
    for _ in range(4):
        p = model(window)[0].sort(-1).values[0, 1]
        future.append(p.item())
        window = torch.cat([window[:, 1:], p.view(1, 1, 1)], 1)
print(np.round(future, 3))
print(torch.quantile(series, quantiles), series.kthvalue(10).values, torch.nanmedian(series))
spectrum = torch.fft.rfft(series - series.mean()).abs()
print(
    int(spectrum.argmax()),
    torch.stft(series, 64, return_complex=True, window=torch.hann_window(64)).shape,
)
