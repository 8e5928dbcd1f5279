"""An LSTM predicts the next values of a wave."""

import torch
import torch.nn as nn


class Forecaster(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, state=None):
        h, state = self.lstm(x, state)
        return self.out(h), state


torch.manual_seed(3)
t = torch.arange(0, 20, 0.2)
phases = torch.rand(16, 1) * 6.28
waves = torch.sin(t + phases).unsqueeze(-1)
model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    optimizer.zero_grad()
    guess, _ = model(waves[:, :-1])
    loss = nn.functional.mse_loss(guess, waves[:, 1:])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 0:
        print(step, f"{loss.item():.3f}")
with torch.no_grad():
    x, state = waves[:1, :50], None
    guess, state = model(x)
    last = guess[:, -1:]
    for _ in range(5):
        last, state = model(last, state)
    print(last.shape, f"{last.item():.1f}")
