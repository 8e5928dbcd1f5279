"""Sequences of unequal lengths through a bidirectional GRU."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(5)
lengths = [9, 4, 7, 2, 5, 6]
sequences = [torch.randint(1, 12, (n,)) for n in lengths]
labels = torch.tensor([float(s.float().mean() > 6) for s in sequences])
padded = pad_sequence(sequences, batch_first=True)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 8, padding_idx=0)
        self.gru = nn.GRU(8, 10, bidirectional=True, batch_first=True)
        self.score = nn.Linear(20, 1)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        out, hidden = self.gru(packed)
        out, sizes = pad_packed_sequence(out, batch_first=True)
        return self.score(torch.cat([hidden[0], hidden[1]], 1)).squeeze(1), out, sizes


model = Tagger()
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
for epoch in range(31):
    score, out, sizes = model(padded, torch.tensor(lengths))
    loss = nn.functional.binary_cross_entropy_with_logits(score, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        print(epoch, f"{loss:.3f}")
print(out.shape, sizes.tolist(), model.embedding.weight[0].abs().sum().item())
