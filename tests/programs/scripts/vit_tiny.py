"""A small vision transformer: einsum, unfold patches, scaled_dot_product_attention, MHA masks."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(33)


class PatchEmbed(nn.Module):
    def __init__(self, size=16, patch=4, chans=1, dim=32):
        super().__init__()
        self.patch = patch
        self.n = (size // patch) ** 2
        self.proj = nn.Linear(chans * patch * patch, dim)

    def forward(self, x):
        B, C, H, W = x.shape
        p = self.patch
        x = x.unfold(2, p, p).unfold(3, p, p)
        x = x.permute(0, 2, 3, 1, 4, 5).contiguous().view(B, -1, C * p * p)
        return self.proj(x)


class Attention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0)
        return self.proj(x.transpose(1, 2).flatten(2))


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0.0:
            return x
        keep = 1 - self.p
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        return x.div(keep) * mask


class Block(nn.Module):
    def __init__(self, dim, drop):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.ls = nn.Parameter(1e-1 * torch.ones(dim))
        self.drop = DropPath(drop)

    def forward(self, x):
        x = x + self.drop(self.ls * self.attn(self.norm1(x)))
        return x + self.drop(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    def __init__(self, dim=32, depth=2, classes=4):
        super().__init__()
        self.patch = PatchEmbed(dim=dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.empty(1, self.patch.n + 1, dim))
        nn.init.trunc_normal_(self.pos, std=0.02)
        rates = [x.item() for x in torch.linspace(0, 0.1, depth)]
        self.blocks = nn.Sequential(*[Block(dim, r) for r in rates])
        self.head = nn.Linear(dim, classes)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
            if m.bias is not None:
                nn.init.zeros_(m.bias)

    def no_weight_decay(self):
        return {"pos", "cls_token"}

    def forward(self, x):
        x = self.patch(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos
        return self.head(self.blocks(x)[:, 0])


def batch(n):
    y = torch.randint(4, (n,))
    x = 0.3 * torch.randn(n, 1, 16, 16)
    for image, label in zip(x, y.tolist()):
        r, c = divmod(label, 2)
        image[0, 8 * r : 8 * r + 8, 8 * c : 8 * c + 8] += 1
    return x, y


model = ViT()
print(f"{sum(p.numel() for p in model.parameters() if p.requires_grad):,}")
skip = model.no_weight_decay()
groups = [
    {
        "params": [p for n, p in model.named_parameters() if n in skip or p.ndim == 1],
        "weight_decay": 0,
    },
    {"params": [p for n, p in model.named_parameters() if not (n in skip or p.ndim == 1)]},
]
opt = torch.optim.AdamW(groups, lr=2e-3, weight_decay=0.05)
for step in range(15):
    x, y = batch(16)
    loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if step % 5 == 0:
        print(f"{step} {loss.item():.4f}")
model.eval()
x, y = batch(64)
print(f"{(model(x).argmax(-1) == y).float().mean():.2f}")
mha = nn.MultiheadAttention(32, 4, batch_first=True, dropout=0.0)
q = torch.randn(2, 5, 32)
causal = nn.Transformer.generate_square_subsequent_mask(5)
pad = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
out, weights = mha(
    q, q, q, attn_mask=causal, key_padding_mask=pad.float().masked_fill(pad, float("-inf"))
)
print(weights[1, 4].tolist()[3:], weights.sum(-1).allclose(torch.ones(2, 5)), f"{out.std():.4f}")
layer = nn.TransformerDecoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
dec = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(32))
print(f"{dec(q, q, tgt_mask=causal, tgt_is_causal=True).std():.4f}")
