"""Q-learning with a replay buffer and a target network."""

import copy
import random
from collections import deque

import torch
import torch.nn as nn

random.seed(0)
torch.manual_seed(0)
STATES = 6
online = nn.Sequential(nn.Linear(STATES, 24), nn.ReLU(), nn.Linear(24, 2))
target = copy.deepcopy(online)
for p in target.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam(online.parameters(), lr=5e-3)
memory = deque(maxlen=500)
eye = torch.eye(STATES)


def step(s, a):
    s = min(s + 1, STATES - 1) if a else 0
    return s, float(s == STATES - 1)


state, updates = 0, 0
for t in range(300):
    if random.random() < 0.3:
        action = random.randint(0, 1)
    else:
        with torch.no_grad():
            action = online(eye[state]).argmax().item()
    new, reward = step(state, action)
    memory.append((state, action, reward, new))
    state = 0 if reward else new
    if len(memory) >= 32:
        s, a, r, n = zip(*random.sample(list(memory), 32))
        q = online(eye[list(s)]).gather(1, torch.tensor(a).unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = target(eye[list(n)]).max(dim=1).values
        loss = nn.functional.smooth_l1_loss(q, torch.tensor(r) + 0.9 * best)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(online.parameters(), 1.0)
        optimizer.step()
        updates += 1
        if updates % 20 == 0:
            target.load_state_dict(online.state_dict())
        if updates % 100 == 1:
            print(updates, f"{loss.item():.4f}")
print(len(memory), updates)
