"""
A dict of dicts
===============

The parameters of a network as a dict of dicts, trained by plain gradient steps.
"""

import adjoint as ad

ad.manual_seed(0)


def layer(inputs, outputs):
    scale = (2 / (inputs + outputs)) ** 0.5
    return {"weight": scale * ad.randn(inputs, outputs), "bias": ad.zeros(outputs)}


params = ad.requires_grad({"hidden": layer(1, 24), "output": layer(24, 1)})
print(ad.describe(params))


def model(params, x):
    hidden = ad.tanh(x @ params["hidden"]["weight"] + params["hidden"]["bias"])
    return hidden @ params["output"]["weight"] + params["output"]["bias"]


x = ad.linspace(-3, 3, 64).reshape(-1, 1)
target = ad.sin(x)
for step in range(2001):
    loss = ((model(params, x) - target) ** 2).mean()
    slope = ad.autograd.grad(loss, params)
    params = ad.requires_grad(ad.map(lambda p, g: p.detach() - 0.1 * g, params, slope))
    if step % 500 == 0:
        print(f"step {step:4d}  loss {loss.item():.4f}")
print("learnt:", bool(loss < 0.01))
