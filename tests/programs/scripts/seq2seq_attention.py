"""An encoder and a decoder with attention learn to turn sequences round."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(0)
torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru = nn.Embedding(10, 16), nn.GRU(16, 24, batch_first=True)

    def forward(self, x):
        return self.gru(self.embed(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.cell = nn.Embedding(10, 16), nn.GRUCell(16 + 24, 24)
        self.query, self.out = nn.Linear(24, 24, bias=False), nn.Linear(48, 10)

    def forward(self, token, h, memory):
        score = torch.bmm(memory, self.query(h).unsqueeze(2)).squeeze(2)
        context = torch.bmm(F.softmax(score, dim=1).unsqueeze(1), memory).squeeze(1)
        h = self.cell(torch.cat([self.embed(token), context], dim=1), h)
        return self.out(torch.cat([h, context], dim=1)), h


encoder, decoder = Encoder(), Decoder()
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=5e-3)
for step in range(41):
    x = torch.randint(1, 10, (16, 5))
    y = x.flip(1)
    memory, h = encoder(x)
    h, token, loss = h[0], torch.zeros(16, dtype=torch.long), 0.0
    teach = random.random() < 0.5
    for t in range(5):
        logits, h = decoder(token, h, memory)
        loss = loss + F.cross_entropy(logits, y[:, t])
        token = y[:, t] if teach else logits.argmax(1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item() / 5:.2f}")
