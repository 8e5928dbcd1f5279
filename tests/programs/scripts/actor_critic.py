"""Actor-critic on a small cart, with generalised advantages and an entropy bonus."""

import collections
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

SavedAction = collections.namedtuple("SavedAction", ["log_prob", "value", "entropy"])
torch.manual_seed(543)
rng = np.random.default_rng(543)


class Cart:
    """Balance a point by pushing it left or right."""

    def reset(self):
        self.state = rng.uniform(-0.05, 0.05, size=4).astype(np.float32)
        return self.state

    def step(self, action):
        x, v, a, w = self.state
        force = 1.0 if action == 1 else -1.0
        w = w + 0.05 * (9.8 * np.sin(a) - force * np.cos(a))
        a = a + 0.05 * w
        v = v + 0.05 * force
        x = x + 0.05 * v
        self.state = np.array([x, v, a, w], dtype=np.float32)
        done = bool(abs(x) > 2.4 or abs(a) > 0.3)
        return self.state, 1.0, done


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(4, 32)
        self.dropout = nn.Dropout(p=0.1)
        self.action_head = nn.Linear(32, 2)
        self.value_head = nn.Linear(32, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model = Policy()
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, alpha=0.95, momentum=0.1)
eps = np.finfo(np.float32).eps.item()


def select_action(state):
    state = torch.from_numpy(state).float()
    probs, value = model(state)
    m = Categorical(probs)
    action = m.sample()
    model.saved_actions.append(SavedAction(m.log_prob(action), value, m.entropy()))
    return action.item()


def finish_episode():
    returns = collections.deque()
    R = 0
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses, bonus = [], [], []
    for (log_prob, value, entropy), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
        bonus.append(entropy)
    optimizer.zero_grad()
    loss = (
        torch.stack(policy_losses).sum()
        + torch.stack(value_losses).sum()
        - 0.01 * torch.stack(bonus).sum()
    )
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]
    return loss.item()


env, running = Cart(), 10.0
for episode in count(1):
    state, total = env.reset(), 0
    for t in range(1, 60):
        state, reward, done = env.step(select_action(state))
        model.rewards.append(reward)
        total += reward
        if done:
            break
    running = 0.05 * total + 0.95 * running
    loss = finish_episode()
    if episode % 5 == 0:
        print(f"Episode {episode}\tLast reward: {total:.2f}\tAverage: {running:.2f}\t{loss:.3f}")
    if episode == 20:
        break
