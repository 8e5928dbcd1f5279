"""
A tree five levels deep
=======================

Dicts, lists and dataclasses within each other, five levels down; so is the gradient.
"""

from dataclasses import dataclass, field

import adjoint as ad


@dataclass
class Sensor:
    gain: ad.Tensor
    name: str = "sensor"


@dataclass(frozen=True)
class Site:
    sensors: dict[str, list[Sensor]] = field(default_factory=dict)
    offset: ad.Tensor = field(default_factory=lambda: ad.zeros(2))


network = {
    "north": [
        Site({"air": [Sensor(ad.tensor([1.0, 2.0]), "a0"), Sensor(ad.tensor([3.0, 4.0]), "a1")]}),
        Site({"soil": [Sensor(ad.tensor([5.0, 6.0]), "s0")]}),
    ],
    "south": (Site({"air": []}),),
}
ad.requires_grad(network)
print(ad.describe(network))


def reading(site):
    total = site.offset
    for sensors in site.sensors.values():
        for sensor in sensors:
            total = total + sensor.gain**2
    return total.sum()


loss = sum(reading(site) for sites in network.values() for site in sites)
ad.backward(loss)

gradient = ad.grads(network)
deepest = gradient["north"][0].sensors["air"][1]
print(deepest.name, deepest.gain)  # 2 * gain
print("offset", gradient["south"][0].offset)
