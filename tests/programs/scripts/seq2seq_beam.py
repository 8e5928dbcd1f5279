"""A GRU encoder-decoder with Bahdanau attention, teacher forcing and beam search."""

import math
import random
from dataclasses import dataclass, field
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn, optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

random.seed(0)
torch.manual_seed(0)
PAD, BOS, EOS, OFFSET = 0, 1, 2, 3
VOCAB = 10 + OFFSET


def make_pair():
    n = random.randint(2, 5)
    source = [random.randrange(10) + OFFSET for _ in range(n)]
    return torch.tensor(source), torch.tensor([BOS] + source[::-1] + [EOS])


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * dim, dim)

    def forward(self, src: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        packed = pack_padded_sequence(
            self.embed(src), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        out, h = self.rnn(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        return out, torch.tanh(self.bridge(torch.cat([h[0], h[1]], dim=-1)))


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(2 * dim, dim)
        self.v = nn.Parameter(torch.empty(dim))
        nn.init.uniform_(self.v, -1 / math.sqrt(dim), 1 / math.sqrt(dim))

    def forward(self, h, memory, mask):
        energy = torch.tanh(self.query(h).unsqueeze(1) + self.key(memory)) @ self.v
        weights = energy.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        return torch.einsum("bs,bsd->bd", weights, memory), weights


class Decoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.attention = Attention(dim)
        self.cell = nn.GRUCell(3 * dim, dim)
        self.out = nn.Linear(3 * dim, VOCAB)

    def step(self, token, h, memory, mask):
        context, weights = self.attention(h, memory, mask)
        h = self.cell(torch.cat([self.embed(token), context], -1), h)
        return self.out(torch.cat([h, context], -1)), h, weights


encoder, decoder = Encoder(24), Decoder(24)
params = list(encoder.parameters()) + list(decoder.parameters())
opt = optim.Adam(params, lr=5e-3)
sched = optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10))
loss_fn = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.05, reduction="sum")
for it in range(30):
    pairs = [make_pair() for _ in range(16)]
    src = pad_sequence([p[0] for p in pairs], batch_first=True, padding_value=PAD)
    tgt = pad_sequence([p[1] for p in pairs], batch_first=True)
    lengths = torch.as_tensor([len(p[0]) for p in pairs])
    memory, h = encoder(src, lengths)
    mask = src.ne(PAD)
    loss, token = 0, tgt[:, 0]
    for t in range(1, tgt.size(1)):
        logits, h, _ = decoder.step(token, h, memory, mask)
        loss = loss + loss_fn(logits, tgt[:, t])
        token = tgt[:, t] if random.random() < 0.7 else logits.argmax(-1)
    loss = loss / tgt[:, 1:].ne(PAD).sum()
    opt.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(params, 1.0)
    opt.step()
    sched.step()
    if it % 10 == 9:
        print(f"{it + 1:3d} loss {loss:.3f} norm {norm:.3f} lr {sched.get_last_lr()[0]:.4f}")


@dataclass(order=True)
class Beam:
    score: float
    tokens: List[int] = field(compare=False)
    h: Optional[Tensor] = field(compare=False, default=None)


@torch.no_grad()
def beam_search(source, width=3, limit=8):
    memory, h = encoder(source[None], torch.tensor([len(source)]))
    mask = torch.ones(1, len(source), dtype=torch.bool)
    beams = [Beam(0.0, [BOS], h)]
    for _ in range(limit):
        fresh = []
        for beam in beams:
            if beam.tokens[-1] == EOS:
                fresh.append(beam)
                continue
            token = torch.tensor(beam.tokens[-1:])
            logits, h, _ = decoder.step(token, beam.h, memory, mask)
            top = logits.log_softmax(-1)[0].topk(width)
            for value, index in zip(top.values, top.indices):
                fresh.append(Beam(beam.score + value.item(), beam.tokens + [index.item()], h))
        beams = sorted(fresh, reverse=True)[:width]
    return beams[0]


best = beam_search(torch.tensor([4, 7, 9]))
print(best.tokens, round(best.score, 3))
