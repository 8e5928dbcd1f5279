"""A Kalman filter whose noise is learned by the likelihood of what is seen."""

import math

import torch

torch.manual_seed(1)
dt = 0.1
A = torch.tensor([[1.0, dt], [0.0, 1.0]], dtype=torch.double)
H = torch.tensor([[1.0, 0.0]], dtype=torch.double)
truth = [torch.zeros(2, dtype=torch.double)]
for _ in range(60):
    truth.append(
        A @ truth[-1]
        + torch.tensor([0.0, 0.3], dtype=torch.double) * torch.randn(2, dtype=torch.double)
    )
seen = torch.stack(truth)[1:, 0] + 0.2 * torch.randn(60, dtype=torch.double)
log_q = torch.zeros(2, dtype=torch.double, requires_grad=True)
log_r = torch.zeros(1, dtype=torch.double, requires_grad=True)


def likelihood():
    m, P = torch.zeros(2, dtype=torch.double), torch.eye(2, dtype=torch.double)
    Q, R = torch.diag(log_q.exp()), torch.diag(log_r.exp())
    total = 0.0
    for z in seen:
        m, P = A @ m, A @ P @ A.T + Q
        S = H @ P @ H.T + R
        v = z.reshape(1) - H @ m
        K = torch.linalg.solve(S, H @ P).T
        m, P = m + K @ v, (torch.eye(2, dtype=torch.double) - K @ H) @ P
        total = total + 0.5 * (
            torch.logdet(S) + v @ torch.linalg.inv(S) @ v + math.log(2 * math.pi)
        )
    return total, m


optimizer = torch.optim.Adam([log_q, log_r], lr=0.1)
for step in range(16):
    optimizer.zero_grad()
    loss, m = likelihood()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"{step} {loss.item():.4f} {m.detach().tolist()[0]:.4f}")
print([round(v, 3) for v in log_q.exp().tolist()], round(log_r.exp().item(), 3))
