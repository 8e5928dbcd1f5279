"""Text: a tagger with a CRF, and a language model with rotary positions, a cache and sampling."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import (
    pack_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)

torch.manual_seed(1)
text = "the quick brown fox jumps over the lazy dog . the dog sleeps ."
vocab = {w: i for i, w in enumerate(sorted(set(text.split())), 2)}
sents = [s.split() for s in text.split(".") if s.strip()]
seqs = [torch.tensor([vocab[w] for w in s]) for s in sents]
batch = pad_sequence(seqs, batch_first=True, padding_value=0, padding_side="right")
lengths = torch.tensor([len(s) for s in seqs])
mask = torch.arange(batch.size(1))[None] < lengths[:, None]
print(batch, mask, [u.tolist() for u in unpad_sequence(batch, lengths, batch_first=True)])
packed = pack_sequence([F.one_hot(s, 12).float() for s in sorted(seqs, key=len, reverse=True)])
print(
    type(packed).__name__,
    packed.batch_sizes,
    packed.data.shape,
    [u.shape for u in unpack_sequence(packed)],
)


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(tags, tags) * 0.1)
        self.start = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))

    def nll(self, e, tags, mask):
        B, T, K = e.shape
        alpha = self.start + e[:, 0]
        idx = torch.arange(B)
        score = self.start[tags[:, 0]] + e[idx, 0, tags[:, 0]]
        for t in range(1, T):
            nxt = torch.logsumexp(alpha.unsqueeze(2) + self.trans + e[:, t].unsqueeze(1), 1)
            m = mask[:, t]
            alpha = torch.where(m[:, None], nxt, alpha)
            score = score + torch.where(
                m, self.trans[tags[:, t - 1], tags[:, t]] + e[idx, t, tags[:, t]], torch.zeros(())
            )
        last = tags.gather(1, (mask.sum(1) - 1)[:, None]).squeeze(1)
        return (torch.logsumexp(alpha + self.end, 1) - score - self.end[last]).mean()

    @torch.no_grad()
    def decode(self, e):
        v, back = self.start + e[0], []
        for t in range(1, len(e)):
            s = v[:, None] + self.trans
            best = s.max(0)
            v = best.values + e[t]
            back.append(best.indices)
        path = [int((v + self.end).argmax())]
        for b in reversed(back):
            path.append(int(b[path[-1]]))
        return path[::-1]


emb, lstm, head, crf = (
    nn.Embedding(12, 8, padding_idx=0),
    nn.LSTM(8, 6, bidirectional=True, batch_first=True),
    nn.Linear(12, 3),
    CRF(3),
)
params = [p for m in (emb, lstm, head, crf) for p in m.parameters()]
opt = torch.optim.Adagrad(params, lr=0.1)
tags = batch % 3
for i in range(10):
    out, _ = lstm(emb(batch))
    loss = crf.nll(head(out), tags, mask)
    opt.zero_grad(set_to_none=False)
    loss.backward()
    opt.step()
print(
    f"{loss.item():.3f}",
    crf.decode(head(lstm(emb(batch[:1]))[0])[0]),
    tags[0].tolist(),
    emb.weight.grad[0].abs().sum(),
)


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.up, self.gate, self.down = (
            nn.Linear(d, 2 * d, bias=False),
            nn.Linear(d, 2 * d, bias=False),
            nn.Linear(2 * d, d, bias=False),
        )

    def rope(self, x, offset):
        T, D = x.shape[-2:]
        f = 1.0 / 10000 ** (torch.arange(0, D, 2) / D)
        a = torch.outer(torch.arange(offset, offset + T).float(), f)
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * torch.polar(
            torch.ones_like(a), a
        )
        return torch.view_as_real(z).flatten(-2).type_as(x)

    def forward(self, x, cache=None):
        B, T, D = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, T, 3, self.h, -1).permute(2, 0, 3, 1, 4).unbind(0)
        off = 0 if cache is None else cache[0].size(2)
        q, k = self.rope(q, off), self.rope(k, off)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, D))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), (k, v)


class LM(nn.Module):
    def __init__(self, V=12, d=16):
        super().__init__()
        self.e = nn.Embedding(V, d)
        self.b = nn.ModuleList(Block(d, 2) for _ in range(2))
        self.n = nn.RMSNorm(d)
        self.e.weight.data.mul_(0.1)

    def forward(self, ids, caches=None):
        x, new = self.e(ids), []
        for i, b in enumerate(self.b):
            x, c = b(x, None if caches is None else caches[i])
            new.append(c)
        return F.linear(self.n(x), self.e.weight), new


lm = LM()
opt = torch.optim.AdamW(lm.parameters(), 1e-2, betas=(0.9, 0.95))
ids = torch.cat(seqs)[None]
for i in range(15):
    logits, _ = lm(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(lm.parameters(), 1.0, error_if_nonfinite=True)
    opt.step()
print(f"{loss.item():.4f}")


@torch.inference_mode()
def generate(ids, n, temperature=0.8, top_k=4, top_p=0.9):
    g = torch.Generator().manual_seed(0)
    logits, caches = lm(ids)
    for _ in range(n):
        l = logits[:, -1] / temperature
        l[l < torch.topk(l, top_k).values[:, -1:]] = -float("inf")
        s, i = l.sort(descending=True)
        cut = s.softmax(-1).cumsum(-1) - s.softmax(-1) > top_p
        l = l.masked_fill(cut.scatter(1, i, cut), -float("inf"))
        nxt = torch.multinomial(l.softmax(-1), 1, generator=g)
        ids = torch.cat([ids, nxt], 1)
        logits, caches = lm(nxt, caches)
    return ids


out = generate(ids[:, :3], 6)
print(
    out,
    torch.allclose(
        lm(ids)[0][:, -1],
        lm(ids[:, -1:], [(c[0][:, :, :-1], c[1][:, :, :-1]) for c in lm(ids)[1]])[0][:, -1],
        atol=1e-5,
    ),
)
