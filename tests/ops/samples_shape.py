"""The rest of the table of samples: products, shapes, indexing, neural-network functions, casts.

Read `samples.py` first; it joins both parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.spec import Arr, D, Op, Sample

F = "nn.functional."
T = "Tensor."
MASK = np.array([[True, False, True], [False, False, True]])


def S(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


def R(*shape: int) -> Arr:
    return Arr(shape)


def I(*values: Any) -> np.ndarray[Any, Any]:  # noqa: E743 - an index
    return np.array(values, np.int64)


def moved(name: str, samples: list[Sample], path: str = "", **more: Any) -> Op:
    """An op that only moves elements: every dtype, exact."""
    return Op(name, samples, "bifhc", path=path, **more)


def product(name: str, samples: list[Sample], **more: Any) -> Op:
    """A contraction; the error grows with its length, here at most 40 terms."""
    return Op(name, samples, **{"dtypes": "ifhc", "ulps": 64, **more})


def equation(text: str, *shapes: tuple[int, ...]) -> Sample:
    return S(text, *(Arr(s) for s in shapes))


# fmt: off
PRODUCTS = [
    product(
        "matmul",
        [
            S(R(2, 3), R(3, 4)), S(R(3), R(3)), S(R(3), R(3, 4)), S(R(2, 3), R(3)),
            S(R(5, 2, 3), R(3, 4)), S(R(5, 2, 3), R(5, 3, 4)), S(R(2, 1, 2, 3), R(4, 3, 2)),
            S(R(3), R(2, 3, 4)), S(R(2, 2, 3), R(3)), S(R(0, 3), R(3, 4)), S(R(2, 0), R(0, 4)),
            S(R(2, 3), R(3, 0)), S(R(17, 37), R(37, 19)),
        ],
    ),
    product("mm", [
        S(R(2, 3), R(3, 4)), S(R(1, 3), R(3, 1)), S(R(2, 0), R(0, 4)), S(R(9, 40), R(40, 7)),
    ]),
    product("bmm", [
        S(R(5, 2, 3), R(5, 3, 4)), S(R(0, 2, 3), R(0, 3, 4)), S(R(2, 2, 0), R(2, 0, 3)),
    ]),
    product("mv", [S(R(2, 3), R(3)), S(R(2, 0), R(0)), S(R(9, 40), R(40))]),
    product("addmv", [
        S(R(2), R(2, 3), R(3)), S(R(), R(2, 3), R(3)), S(R(2), R(2, 3), R(3), beta=2, alpha=3),
        S(R(2), R(2, 3), R(3), beta=0),
    ], inplace=True),
    product("vdot", [S(R(3), R(3)), S(R(0), R(0)), S(R(40), R(40))]),
    product("linear", [
        S(R(2, 3), R(4, 3)), S(R(2, 3), R(4, 3), R(4)), S(R(3), R(4, 3), R(4)),
        S(R(5, 2, 3), R(4, 3), R(4)), S(R(0, 3), R(4, 3)), S(R(3), R(3)),
    ], path=F + "linear", method=False),
    product("dot", [S(R(3), R(3)), S(R(0), R(0)), S(R(40), R(40))]),
    product("inner", [S(R(3), R(3)), S(R(2, 3), R(4, 3)), S(R(), R(4, 3)), S(R(0), R(0))]),
    product("kron", [S(R(2), R(3)), S(R(2, 3), R(4, 2)), S(R(), R(2, 3)), S(R(2, 1, 3), R(2, 2))],
            restride=False),  # PyTorch's refuses some strides
    product("cross", [S(R(3), R(3)), S(R(4, 3), R(4, 3)), S(R(3, 4), R(3, 4), dim=0)]),
    product("outer", [S(R(3), R(4)), S(R(0), R(4)), S(R(1), R(1))]),
    product(
        "addmm",
        [
            S(R(2, 4), R(2, 3), R(3, 4)), S(R(4), R(2, 3), R(3, 4)), S(R(), R(2, 3), R(3, 4)),
            S(R(2, 4), R(2, 3), R(3, 4), beta=2, alpha=3), S(R(2, 4), R(2, 3), R(3, 4), beta=0),
            S(R(2, 4), R(2, 0), R(0, 4)),
        ],
        inplace=True,
    ),
    product(
        "baddbmm",
        [
            S(R(5, 2, 4), R(5, 2, 3), R(5, 3, 4)), S(R(4), R(5, 2, 3), R(5, 3, 4)),
            S(R(5, 2, 4), R(5, 2, 3), R(5, 3, 4), beta=2, alpha=3),
        ],
        inplace=True,
    ),
    product(
        "einsum",
        [
            equation("ij,jk->ik", (2, 3), (3, 4)), equation("ij,jk", (2, 3), (3, 4)),
            equation("ii", (3, 3)), equation("ii->i", (3, 3)), equation("ij->ji", (2, 3)),
            equation("ij->", (2, 3)), equation("i,j->ij", (2,), (3,)), equation("i,i", (3,), (3,)),
            equation("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
            equation("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
            equation("i...,i->...", (3, 2), (3,)), equation("ij,kj,lk->il", (2, 3), (4, 3), (2, 4)),
            equation("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 2, 4)),
            equation(" i j , j -> i ", (2, 3), (3,)),
        ],
        method=False, dtypes="fhc",
    ),
    product(
        "tensordot",
        [
            S(R(2, 3, 4), R(3, 4, 5), dims=2), S(R(2, 3), R(4, 5), dims=0),
            S(R(2, 3, 4), R(4, 2, 5), dims=([0, 2], [1, 0])), S(R(3), R(3), dims=1),
        ],
        method=False,
    ),
]

SHAPES = [
    moved("reshape", [
        S(R(2, 6), (3, 4)), S(R(2, 6), (-1,)), S(R(2, 6), (2, -1, 2)), S(R(1), ()),
        S(R(0, 3), (3, 0)),
    ]),
    moved("flatten", [
        S(R(2, 3, 4)), S(R(2, 3, 4), 1), S(R(2, 3, 4), start_dim=0, end_dim=1), S(R()), S(R(2, 0)),
    ]),
    moved("squeeze", [
        S(R(1, 3, 1)), S(R(1, 3, 1), 0), S(R(1, 3, 1), dim=1), S(R(1, 3, 1), (0, -1)), S(R()),
    ]),
    moved("unsqueeze", [S(R(2, 3), 0), S(R(2, 3), -1), S(R(2, 3), dim=1), S(R(), 0)]),
    moved("transpose", [S(R(2, 3, 4), 0, 1), S(R(2, 3, 4), -1, 0), S(R(2, 0), 0, 1), S(R(), 0, 0)]),
    moved("permute", [S(R(2, 3, 4), (2, 0, 1)), S(R(2, 3, 4), (0, -1, 1)), S(R(), ())]),
    moved("movedim", [S(R(2, 3, 4), 0, 2), S(R(2, 3, 4), (0, 1), (2, 0)), S(R(2, 3, 4), -1, 0)]),
    moved("expand", [
        S(R(1, 3), (2, 3)), S(R(3), (2, -1)), S(R(), (2, 2)), S(R(1, 3), (0, 3)),
        S(R(2, 1, 3), (2, 4, 3)),
    ], T + "expand"),
    moved("repeat", [
        S(R(2, 3), (2, 1)), S(R(3), (2, 2)), S(R(), (3,)), S(R(2), (0,)),
    ], T + "repeat"),
    moved("cat", [
        S([R(2, 3), R(1, 3)]), S([R(2, 3), R(2, 1), R(2, 0)], dim=1), S([R(2, 3)], dim=-1),
        S((R(0, 3), R(2, 3))),
    ], method=False),
    moved("stack", [
        S([R(2, 3), R(2, 3)]), S([R(2), R(2), R(2)], dim=1), S([R(), R()], dim=-1), S([R(0)]),
    ], method=False),
    moved("split", [S(R(5, 2), 2), S(R(5, 2), [1, 4]), S(R(2, 4), 2, dim=1), S(R(0, 2), 2)]),
    moved("chunk", [S(R(5, 2), 2), S(R(2, 7), 3, dim=-1), S(R(2), 5)]),
    moved("unbind", [S(R(2, 3)), S(R(2, 3), dim=1), S(R(2, 0))]),
    moved("narrow", [S(R(5, 2), 0, 1, 3), S(R(2, 5), -1, 2, 2), S(R(5), 0, 1, 0)]),
    moved("select", [S(R(2, 3), 0, 1), S(R(2, 3), -1, -1), S(R(4), 0, 2)]),
    moved("flip", [S(R(2, 3), (0,)), S(R(2, 3, 2), (0, -1)), S(R(), ()), S(R(0, 3), (1,))]),
    moved("roll", [S(R(2, 5), 1), S(R(2, 5), -2, 1), S(R(2, 5), (1, 2), (0, 1)), S(R(5), 7, 0)]),
    moved("diagonal", [
        S(R(3, 3)), S(R(3, 4), 1), S(R(3, 4), offset=-1), S(R(2, 3, 4), dim1=0, dim2=2),
        S(R(3, 3), 5),
    ]),
    moved("as_strided", [
        S(R(12), (2, 3), (6, 2)), S(R(3, 4), (2, 2), (1, 1), 3), S(R(12), (3, 3), (1, 2), 1),
        S(R(3), (), ()), S(R(3), (0, 2), (1, 1)),
    ], restride=False),
    moved("as_strided_scatter", [
        S(R(12), R(2, 3), (2, 3), (6, 2)), S(R(3, 4), R(2, 2), (2, 2), (4, 1), 5),
    ], restride=False),
    Op(
        "select_scatter", [S(R(2, 3), R(3), 0, 1), S(R(2, 3), R(2), dim=-1, index=-1)], "bifh",
    ),
    Op("slice_scatter", [
        S(R(5, 2), R(3, 2), 0, 1, 4), S(R(2, 6), R(2, 3), dim=1, step=2), S(R(4), R(2), start=-2),
    ], "bifh"),
    Op("sum_to_size", [
        S(R(2, 3), (1, 3)), S(R(4, 2, 3), (2, 1)), S(R(2, 3), (2, 3)), S(R(2, 3), ()),
    ], "fc", path=T + "sum_to_size", ulps=8),
    Op("conj", [S(R(2, 3)), S(R()), S(R(0, 3))], "bifhc"),
    Op("real", [S(R(2, 3)), S(R()), S(R(0, 3))], "fc", "real", method=False),
    Op("imag", [S(R(2, 3)), S(R()), S(R(0, 3))], "c", "real", method=False),
    moved("diag", [S(R(3)), S(R(3), 1), S(R(3, 4)), S(R(3, 4), -1), S(R(0))]),
]

COLUMNS = I([0, 2, 1], [2, 2, 0])
INDEXING = [
    moved("gather", [
        S(R(3, 3), 0, COLUMNS), S(R(2, 3), 1, COLUMNS), S(R(2, 4), -1, I([3], [0])),
        S(R(5), 0, I(4, 4, 0)), S(R(3, 3), 0, np.zeros((0, 3), np.int64)),
    ]),
    moved("take_along_dim", [
        S(R(2, 3), COLUMNS, dim=1), S(R(3, 3), I([0, 2, 1]), dim=0), S(R(6), I(5, 0, 0)),
    ]),
    moved("index_select", [
        S(R(3, 4), 0, I(2, 0, 2)), S(R(3, 4), 1, I(3)), S(R(3), -1, np.zeros(0, np.int64)),
        S(R(2, 3, 4), 1, I(0, 2)),
    ]),
    moved("masked_fill", [
        S(R(2, 3), MASK, 1), S(R(2, 3), MASK[0], 1), S(R(3), MASK, 1), S(R(2, 3), MASK, R()),
        S(R(), np.array(True), 1),
    ], inplace=True),
    moved("masked_select", [
        S(R(2, 3), MASK), S(R(2, 3), MASK[0]), S(R(3), MASK), S(R(2, 3), MASK & False),
        S(R(), np.array(True)),
    ]),
    moved("scatter", [
        S(R(3, 3), 0, COLUMNS[:1], R(1, 3)), S(R(2, 3), 1, I([0, 2], [1, 0]), R(2, 2)),
        S(R(3, 3), 0, COLUMNS[:1], 1),
    ], inplace=True),
    Op("scatter_scalar", [
        S(R(3, 3), 0, COLUMNS, 2, reduce="add"), S(R(3, 3), 0, COLUMNS, 2, reduce="multiply"),
    ], "ifhc", path="scatter", diff=False, method=False, ulps=4),
    Op("scatter_add", [
        S(R(3, 3), 0, COLUMNS, R(2, 3)), S(R(2, 3), 1, I([0, 0, 0], [2, 1, 2]), R(2, 3)),
    ], "ifhc", inplace=True, ulps=4),
    Op(
        "scatter_reduce",
        [
            S(Arr((3, 3), 0.5, 2), 0, COLUMNS, Arr((2, 3), 0.5, 2), reduce=r, include_self=keep)
            for r in ("sum", "prod", "mean", "amax", "amin") for keep in (True, False)
        ],
        "fh", inplace=True, ulps=16,
    ),
    Op("index_add", [
        S(R(3, 4), 0, I(2, 0, 2), R(3, 4)), S(R(3, 4), 1, I(3), R(3, 1), alpha=2),
        S(R(3), -1, np.zeros(0, np.int64), R(0)),
    ], "ifhc", inplace=True, ulps=4),
]

CLASSES = I(2, 0, 1)
LABELS_2D = I([[0, 1], [1, 0], [2, 2]], [[2, 1], [0, 0], [1, 2]])
AROUND_ZERO = [S(Arr(s, avoid=(0.0,))) for s in ((2, 3), (), (0, 3), (67,))]
ROWS = [
    *(S(R(2, 3, 4), dim=d) for d in (0, 1, -1)),
    S(R(), dim=0), S(R(0, 3), dim=1), S(R(3, 67), dim=1),
]
WEIGHT = Arr((3,), 0.5, 2)


def functional(name: str, samples: list[Sample], dtypes: str = "fh", **more: Any) -> Op:
    more.setdefault("ulps", 16)
    return Op(name, samples, dtypes, path=F + name, method=False, **more)


def P(*shape: int) -> Arr:
    """Probabilities."""
    return Arr(shape, 0.05, 0.95)


APART = [
    S(R(2, 3), Arr((2, 3), 2.5, 4)), S(R(), Arr((), 2.5, 4)),
    S(R(2, 3), Arr((2, 3), 2.5, 4), reduction="sum"),
    S(R(2, 3), Arr((2, 3), 2.5, 4), reduction="none"),
]

NETWORK = [
    Op("relu", AROUND_ZERO, "ifh", inplace=True, pointwise=True),
    functional(
        "leaky_relu", [*AROUND_ZERO, S(Arr((5,), avoid=(0.0,)), negative_slope=0.3)],
        ulps=2, inplace=True, pointwise=True,
    ),
    functional(
        "gelu", [*AROUND_ZERO, S(R(67), approximate="tanh")], inplace=True, pointwise=True,
        terms=1,
    ),
    functional("silu", AROUND_ZERO, inplace=True, pointwise=True),
    Op("softmax", ROWS, "fh", ulps=16),
    Op("log_softmax", ROWS, "fh", ulps=16),
    functional(
        "cross_entropy",
        [
            S(R(3, 4), CLASSES), S(R(4), np.array(2)), S(R(3, 4), CLASSES, reduction="sum"),
            S(R(3, 4), CLASSES, reduction="none"),
            S(R(3, 3), CLASSES, weight=WEIGHT), S(R(3, 3), CLASSES, ignore_index=0),
            S(R(3, 4), CLASSES, label_smoothing=0.1),
            S(R(3, 4), Arr((3, 4), 0.1, 0.5)), S(R(2, 3, 3, 2), LABELS_2D),
            S(R(3, 3), CLASSES, weight=WEIGHT, label_smoothing=0.2, reduction="sum"),
        ],
        "f", constants=("weight",),
    ),
    functional(
        "nll_loss",
        [
            S(R(3, 4), CLASSES), S(R(4), np.array(2)), S(R(3, 4), CLASSES, reduction="sum"),
            S(R(3, 4), CLASSES, reduction="none"),
            S(R(3, 3), CLASSES, weight=WEIGHT), S(R(3, 3), CLASSES, ignore_index=0),
            S(R(2, 3, 3, 2), LABELS_2D),
        ],
        "f", constants=("weight",),
    ),
    functional("mse_loss", [
        S(R(2, 3), R(2, 3)), S(R(), R()), S(R(2, 3), R(2, 3), reduction="sum"),
        S(R(2, 3), R(2, 3), reduction="none"),
    ]),
    functional("l1_loss", APART), functional("smooth_l1_loss", [
        *APART, S(R(2, 3), R(2, 3), beta=0.3), S(R(2, 3), Arr((2, 3), 5, 9), beta=0.0),
    ]),
    functional("huber_loss", [*APART, S(R(2, 3), R(2, 3), delta=0.3)]),
    functional("binary_cross_entropy", [
        S(P(2, 3), P(2, 3)), S(P(), P()), S(P(2, 3), P(2, 3), reduction="sum"),
        S(P(2, 3), P(2, 3), weight=P(2, 3), reduction="none"),
    ], "f", constants=("weight",)),
    functional("binary_cross_entropy_with_logits", [
        S(R(2, 3), P(2, 3)), S(R(), P()), S(R(2, 3), P(2, 3), reduction="sum"),
        S(R(2, 3), P(2, 3), weight=P(2, 3), pos_weight=P(3), reduction="none"),
    ], "f", constants=("weight", "pos_weight")),
    functional("rms_norm", [
        S(R(2, 5), (5,)), S(R(2, 5), (5,), Arr((5,), 0.5, 2)), S(R(2, 3, 4), (3, 4)),
        S(R(2, 4), (4,), Arr((4,)), 1e-3),
    ], "f", ulps=64),
    functional("layer_norm", [
        S(R(2, 5), (5,)), S(R(2, 5), (5,), Arr((5,), 0.5, 2), R(5)), S(R(2, 3, 4), (3, 4)),
        S(R(2, 3, 4), (4,), Arr((4,)), None, 1e-3), S(R(0, 5), (5,)),
    ], "f", ulps=64),
]


def cast(name: str, target: str) -> Op:
    samples = [S(R(2, 3)), S(R()), S(R(0, 3)), S(R(67))]
    return Op(f"to_{target}", samples, "bifh", path=T + name, method=False, out=target)


CASTS = [
    moved("clone", [S(R(2, 3)), S(R()), S(R(0, 3))]),
    moved("contiguous", [S(R(2, 3)), S(R()), S(R(0, 3))], T + "contiguous"),
    moved("view", [S(R(2, 3), (2, 3, 1))], T + "view"),
    cast("float", "float32"), cast("double", "float64"), cast("half", "float16"),
    cast("bfloat16", "bfloat16"), cast("int", "int32"), cast("long", "int64"),
    cast("short", "int16"), cast("char", "int8"), cast("bool", "bool"),
    Op("to", [
        S(R(2, 3), D("float32")), S(R(), D("float32")),
    ], "bifh", path=T + "to", method=False, out="float32"),
    Op("type", [
        S(R(2, 3), D("float64")), S(R(), D("float64")),
    ], "bifh", path=T + "type", method=False, out="float64"),
]

# fmt: on
OPS: list[Op] = PRODUCTS + SHAPES + INDEXING + NETWORK + CASTS
REFERENCES: dict[str, Any] = {}  # in `references.py` and `reference_network.py`
