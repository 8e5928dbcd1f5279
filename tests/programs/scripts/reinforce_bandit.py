"""Policy gradients with a baseline, on a walk along a line."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(9)
policy = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
history = []
for episode in range(40):
    place, log_probs, rewards = 0.0, [], []
    for _ in range(12):
        choice = Categorical(logits=policy(torch.tensor([place])))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        place += 0.2 if action.item() == 1 else -0.2
        rewards.append(-abs(place - 1.0))
    returns, total = [], 0.0
    for r in reversed(rewards):
        total = r + 0.95 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(torch.stack(log_probs) * returns).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(sum(rewards))
print(" ".join(f"{r:.1f}" for r in history[:8]))
print(f"{sum(history[:10]) / 10:.1f}")
