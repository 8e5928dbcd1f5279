"""A transformer encoder finds the largest token of a sequence."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, tokens=10, width=32):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.place = nn.Parameter(torch.zeros(1, 12, width))
        layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(width, tokens)

    def forward(self, x, mask=None):
        h = self.embed(x) + self.place[:, : x.size(1)]
        h = self.encoder(h, src_key_padding_mask=mask)
        return self.head(h.mean(1))


torch.manual_seed(2)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
for step in range(40):
    x = torch.randint(0, 10, (32, 8))
    loss = nn.functional.cross_entropy(model(x), x.max(1).values)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 13 == 0:
        print(f"{step:2d} {loss.item():.2f} lr {scheduler.get_last_lr()[0]:.6f}")
model.eval()
mask = torch.zeros(4, 8, dtype=torch.bool)
mask[:, 6:] = True
with torch.no_grad():
    print(model(x[:4], mask).shape)
print([name for name, _ in model.named_parameters()][:4])
