"""Activations, gradients and Grad-CAM by hooks; removal, state_dict hooks, freezing."""

from collections import OrderedDict

import torch
import torch.nn as nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Sequential(OrderedDict(conv=nn.Conv2d(3, 8, 3, 1, 1), act=nn.ReLU()))
        self.layer1 = nn.Sequential(Block(8, 8), Block(8, 8))
        self.layer2 = nn.Sequential(Block(8, 16, 2), Block(16, 16))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)

    def forward(self, x):
        x = self.layer2(self.layer1(self.stem(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


net = ResNet()
acts, grads = {}, {}
handles = []
for name, module in net.named_modules():
    if isinstance(module, Block):

        def keep(m, args, output, name=name):
            acts[name] = output.detach()

        handles.append(module.register_forward_hook(keep))
handles.append(
    net.layer2.register_full_backward_hook(lambda m, gi, go: grads.update(layer2=go[0].detach()))
)
handles.append(net.fc.register_forward_pre_hook(lambda m, args: (args[0] * 2,)))
x = torch.randn(2, 3, 12, 12, requires_grad=True)
out = net(x)
out[torch.arange(2), out.argmax(1)].sum().backward()
for name, value in acts.items():
    print(name, tuple(value.shape), f"{value.mean():.4f}")
weights = grads["layer2"].mean(dim=(2, 3), keepdim=True)
cam = torch.relu((weights * acts["layer2.1"]).sum(1))
cam = nn.functional.interpolate(cam[:, None], size=(12, 12), mode="bilinear", align_corners=False)
print(cam.shape, f"{cam.sum():.3f} {x.grad.norm():.3f}")
for handle in handles:
    handle.remove()
print(len(net.fc._forward_pre_hooks), len(net.layer2._backward_hooks))

seen = []
with nn.modules.module.register_module_forward_hook(lambda m, i, o: seen.append(type(m).__name__)):
    net(x)
print(len(seen), seen[:4], seen[-1])
handle = net.register_forward_pre_hook(
    lambda m, args, kwargs: (args, {**kwargs}), with_kwargs=True, prepend=True
)
print(net(x=x).shape)
handle.remove()

total = []
for p in net.parameters():
    p.register_hook(lambda g: g.clamp(-0.01, 0.01))
    p.register_post_accumulate_grad_hook(lambda p: total.append(p.grad.abs().max().item()))
net.zero_grad()
net(x).square().mean().backward()
print(len(total), max(total) <= 0.0101)


def add_version(module, state, prefix, local):
    state[prefix + "version"] = torch.tensor(2)


def drop_version(module, state, prefix, local, strict, missing, unexpected, errors):
    state.pop(prefix + "version")


net._register_state_dict_hook(add_version)
net._register_load_state_dict_pre_hook(drop_version, with_module=True)
state = net.state_dict()
print(len(state), state["version"], list(state)[:3])
print(net.load_state_dict(state))
try:
    net.load_state_dict(OrderedDict(list(state.items())[2:]))
except RuntimeError as error:
    print(str(error).splitlines()[0], len(str(error).splitlines()))
net.requires_grad_(False)
net.fc.requires_grad_(True)
print([n for n, p in net.named_parameters() if p.requires_grad])
print(net.layer2[0])
