"""The optimizers with `foreach=True`, under the address PyTorch has for them."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from adjoint import optim


def partialclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A class whose objects are made with these arguments besides."""
    return type("NewCls", (cls,), {"__init__": partialmethod(cls.__init__, *args, **kwargs)})


Adam = partialclass(optim.Adam, foreach=True)
AdamW = partialclass(optim.AdamW, foreach=True)
NAdam = partialclass(optim.NAdam, foreach=True)
SGD = partialclass(optim.SGD, foreach=True)
RAdam = partialclass(optim.RAdam, foreach=True)
RMSprop = partialclass(optim.RMSprop, foreach=True)
Rprop = partialclass(optim.Rprop, foreach=True)
ASGD = partialclass(optim.ASGD, foreach=True)
Adamax = partialclass(optim.Adamax, foreach=True)
Adadelta = partialclass(optim.Adadelta, foreach=True)
Adagrad = partialclass(optim.Adagrad, foreach=True)
