#!/usr/bin/env python
import torch
import torch.distributions as D
from torch import nn


class HMM(nn.Module):
    def __init__(self, M, N):
        super().__init__()
        self.M, self.N = M, N
        self.t = nn.Parameter(torch.randn(N, N))
        self.e = nn.Parameter(torch.randn(N, M))
        self.p = nn.Parameter(torch.randn(N))

    def forward(self, x, T):
        B, Tm = x.shape
        lp = torch.log_softmax(self.p, 0)
        la = torch.zeros(B, Tm, self.N)
        le = torch.log_softmax(self.e, 1)
        lt = torch.log_softmax(self.t, 0)
        la[:, 0, :] = le[:, x[:, 0]].T + lp
        for t in range(1, Tm):
            la[:, t, :] = le[:, x[:, t]].transpose(0, 1) + torch.logsumexp(
                lt.unsqueeze(0) + la[:, t - 1, None, :], dim=2
            )
        s = la.logsumexp(dim=2)
        return torch.gather(s, 1, T.view(-1, 1) - 1)

    @torch.no_grad()
    def viterbi(self, x):
        le = self.e.log_softmax(1)
        lt = self.t.log_softmax(0)
        d = le[:, x[0]] + self.p.log_softmax(0)
        back = []
        for o in x[1:]:
            v, i = (lt + d).max(1)
            back.append(i)
            d = v + le[:, o]
        z = [int(d.argmax())]
        for b in reversed(back):
            z.append(b[z[-1]].item())
        return z[::-1], d.max()


torch.manual_seed(0)
pi = D.Categorical(torch.tensor([0.6, 0.4]))
A = D.Categorical(probs=torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
E = D.Categorical(logits=torch.tensor([[2.0, 0, 0], [0, 0, 2.0]]))


def draw(T):
    z = pi.sample()
    xs = []
    for _ in range(T):
        xs.append(D.Categorical(logits=E.logits[z]).sample())
        z = D.Categorical(A.probs[z]).sample()
    return torch.stack(xs)


lengths = torch.randint(5, 13, (16,))
X = nn.utils.rnn.pad_sequence([draw(int(n)) for n in lengths], batch_first=True, padding_value=0)
print(X.shape, lengths.tolist())
m = HMM(3, 2)
opt = torch.optim.Adagrad(m.parameters(), lr=0.3)
for i in range(25):
    loss = -m(X, lengths).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 6 == 0:
        print(i, "nll", format(loss.item(), ".6f"))
print(m.viterbi(X[0][: lengths[0]]))
print(torch.softmax(m.e, 1).detach().numpy().round(3))
with torch.autograd.set_detect_anomaly(True):
    (-m(X, lengths).sum()).backward()
print({n: p.grad.abs().sum().item().__round__(3) for n, p in m.named_parameters()})
