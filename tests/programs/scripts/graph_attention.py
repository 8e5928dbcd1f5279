import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

torch.manual_seed(12345)


def softmax_scatter(src: Tensor, idx: Tensor, n: int) -> Tensor:
    mx = torch.full((n, *src.shape[1:]), float("-inf")).scatter_reduce_(
        0, idx[:, None].expand_as(src), src, reduce="amax", include_self=True
    )
    e = (src - mx[idx]).exp()
    z = torch.zeros(n, *src.shape[1:]).index_add_(0, idx, e)
    return e / (z.index_select(0, idx) + 1e-16)


class MessagePassing(nn.Module):
    def __init__(self, aggr: str = "add"):
        super().__init__()
        self.aggr = aggr

    def propagate(self, ei, x, **kw):
        m = self.message(x[ei[0]], x[ei[1]], **kw)
        i = ei[1].view(-1, *([1] * (m.dim() - 1))).expand_as(m)
        out = x.new_zeros(x.size(0), *m.shape[1:])
        return (
            out.scatter_add_(0, i, m)
            if self.aggr == "add"
            else out.scatter_reduce(
                0, i, m, reduce={"mean": "mean", "max": "amax"}[self.aggr], include_self=False
            )
        )

    def message(self, xj, xi, **kw):
        raise NotImplementedError


class SAGE(MessagePassing):
    def __init__(self, i, o, aggr):
        super().__init__(aggr)
        self.l = nn.Linear(i, o)
        self.r = nn.Linear(i, o, bias=False)
        self.reset_parameters()

    def reset_parameters(self):
        self.l.reset_parameters()
        self.r.reset_parameters()

    def forward(self, x, ei):
        return self.l(self.propagate(ei, x)) + self.r(x)

    def message(self, xj, xi):
        return xj

    def extra_repr(self):
        return f"aggr={self.aggr!r}"


class GAT(nn.Module):
    def __init__(self, i, o, heads=2, slope=0.2):
        super().__init__()
        self.h, self.o = heads, o
        self.lin = nn.Linear(i, heads * o, bias=False)
        self.a = nn.Parameter(torch.empty(1, heads, 2 * o))
        nn.init.xavier_uniform_(self.a, gain=nn.init.calculate_gain("leaky_relu", slope))
        self.act = nn.LeakyReLU(slope)

    def forward(self, x, ei):
        x = self.lin(x).view(-1, self.h, self.o)
        s, d = ei
        a = softmax_scatter(self.act((torch.cat([x[s], x[d]], -1) * self.a).sum(-1)), d, x.size(0))
        a = F.dropout(a, 0.3, self.training)
        self.alpha = a
        return torch.zeros_like(x).index_add(0, d, x[s] * a.unsqueeze(-1)).flatten(1)


class GCN(nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(i, h))
        self.w2 = nn.Parameter(torch.empty(h, o))
        [nn.init.kaiming_uniform_(w, a=5**0.5) for w in (self.w1, self.w2)]

    def forward(self, x, adj):
        return (
            torch.spmm(adj, torch.relu(torch.sparse.mm(adj, x @ self.w1)) @ self.w2)
            if hasattr(torch, "spmm")
            else None
        )


n = 34
ei = torch.randint(0, n, (2, 90))
ei = torch.unique(torch.cat([ei, ei.flip(0), torch.arange(n).repeat(2, 1)], 1), dim=1)
print(ei.shape)
x = torch.randn(n, 8)
y = (x[:, 0] + x[:, 1] > 0).long()
mask = torch.zeros(n, dtype=torch.bool)
mask[torch.randperm(n)[:20]] = True
deg = torch.bincount(ei[1], minlength=n).float()
norm = deg.rsqrt()
adj = torch.sparse_coo_tensor(ei, norm[ei[0]] * norm[ei[1]], (n, n)).coalesce()
print(adj.shape, adj._nnz(), adj.is_coalesced(), torch.allclose(adj.to_dense(), adj.to_dense().t()))


class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.c1, self.c2 = {
            "gat": lambda: (GAT(8, 8), GAT(16, 2, 1)),
            "mean": lambda: (SAGE(8, 16, "mean"), SAGE(16, 2, "mean")),
            "max": lambda: (SAGE(8, 16, "max"), SAGE(16, 2, "add")),
        }[kind]()

    def forward(self, x, ei):
        x = F.elu(self.c1(x, ei))
        return self.c2(F.dropout(x, p=0.2, training=self.training), ei).log_softmax(dim=-1)


for kind in ("gat", "mean", "max", "gcn"):
    net = GCN(8, 16, 2) if kind == "gcn" else Net(kind)
    arg = adj if kind == "gcn" else ei
    opt = torch.optim.Adamax(net.parameters(), lr=0.05, weight_decay=5e-4)
    crit = (
        nn.NLLLoss(weight=torch.tensor([1.0, 1.2]))
        if kind != "gcn"
        else nn.CrossEntropyLoss(label_smoothing=0.1)
    )
    for _ep in range(15):
        net.train()
        opt.zero_grad()
        out = net(x, arg)
        loss = crit(out[mask], y[mask])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        pred = net(x, arg).argmax(dim=1)
        print(
            kind,
            f"{loss.item():.4f}",
            f"train {(pred[mask] == y[mask]).sum() / mask.sum():.3f}",
            "test",
            int((pred[~mask] == y[~mask]).sum()),
        )
print(net, Net("max"))
L = torch.diag(deg) - torch.zeros(n, n).index_put_(
    (ei[0], ei[1]), torch.ones(ei.size(1)), accumulate=True
)
print(
    torch.linalg.eigvalsh(L.double())[:3].abs().round(decimals=4),
    torch.segment_reduce(torch.arange(6.0), "sum", lengths=torch.tensor([2, 3, 1])) if True else 0,
)
