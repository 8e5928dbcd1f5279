"""Values as the records that TensorBoard reads."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

from adjoint import Tensor

# Edges of buckets, from 1e-12 up in steps of a tenth, both signs: TensorFlow's choice.
_MAX = 1e20


def array_of(value: Any) -> np.ndarray[Any, Any]:
    """Numbers of any kind as an array."""
    if isinstance(value, Tensor):
        value = value.detach()
        return np.asarray(value.float().numpy() if value.dtype.itemsize == 2 else value.numpy())
    if isinstance(value, list | tuple):
        return np.array([array_of(item) for item in value])
    return np.asarray(value)


def number_of(value: Any) -> float:
    """One number."""
    found = array_of(value)
    if found.size != 1:
        raise AssertionError(f"scalar should be 0D, got shape {found.shape}")
    return float(found.reshape(()))


def scalar(
    tag: str, value: Any, new_style: bool = False, double_precision: bool = False
) -> Summary:
    """One number; in the newer form as a tensor."""
    number = number_of(value)
    if not new_style:
        return Summary(value=[Summary.Value(tag=tag, simple_value=number)])
    kind, field = ("DT_DOUBLE", "double_val") if double_precision else ("DT_FLOAT", "float_val")
    tensor = TensorProto(**{field: [number], "dtype": kind})
    data = SummaryMetadata.PluginData(plugin_name="scalars")
    return Summary(
        value=[Summary.Value(tag=tag, tensor=tensor, metadata=SummaryMetadata(plugin_data=data))]
    )


def _default_edges() -> np.ndarray[Any, Any]:
    edges, edge = [], 1e-12
    while edge < _MAX:
        edges.append(edge)
        edge *= 1.1
    return np.array([-e for e in reversed(edges)] + [0.0] + edges)


def histogram(
    tag: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None
) -> Summary:
    """How values are spread."""
    given = array_of(values).astype(np.float64).reshape(-1)
    if given.size == 0:
        raise ValueError("The input has no element.")
    counts, edges = np.histogram(
        given, _default_edges() if isinstance(bins, str) and bins == "tensorflow" else bins
    )
    if max_bins is not None and len(counts) > max_bins:
        group = -(-len(counts) // max_bins)
        padded = np.pad(counts, (0, -len(counts) % group))
        counts = padded.reshape(-1, group).sum(axis=1)
        last = edges[-1]
        edges = edges[::group]
        if len(edges) <= len(counts):
            edges = np.append(edges, last)
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    # One empty bucket before the first, as TensorBoard expects.
    start, end = int(filled[0]), int(filled[-1])
    limits = edges[start : end + 2]
    shown = np.append(0, counts[start : end + 1])
    return histogram_raw(
        tag, given.min(), given.max(), given.size, given.sum(), given.dot(given), limits, shown
    )


def histogram_raw(
    tag: str,
    smallest: Any,
    largest: Any,
    count: Any,
    total: Any,
    squares: Any,
    limits: Any,
    counts: Any,
) -> Summary:
    """The same from buckets that are counted already."""
    proto = HistogramProto(
        min=float(smallest),
        max=float(largest),
        num=int(count),
        sum=float(total),
        sum_squares=float(squares),
        bucket_limit=[float(limit) for limit in limits],
        bucket=[float(number) for number in counts],
    )
    return Summary(value=[Summary.Value(tag=tag, histo=proto)])


def text(tag: str, content: str) -> Summary:
    """Text, in Markdown."""
    data = SummaryMetadata.PluginData(plugin_name="text", content=b"")
    metadata = SummaryMetadata(plugin_data=data)
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype="DT_STRING", string_val=[content.encode()], tensor_shape=shape)
    return Summary(
        value=[Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)]
    )


def image(tag: str, pixels: Any, dataformats: str = "CHW") -> Summary:
    """A picture; floats are shares of the brightest."""
    return picture(tag, to_pixels(in_order(array_of(pixels), dataformats)))


def in_order(pixels: np.ndarray[Any, Any], dataformats: str) -> np.ndarray[Any, Any]:
    """Rows, columns, three or four colours; several pictures side by side."""
    axes = dataformats.upper()
    if len(axes) != pixels.ndim or len(set(axes)) != len(axes):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {pixels.shape}, "
            f"input_format: {dataformats}"
        )
    if "N" in axes:
        pixels = np.transpose(pixels, [axes.index(a) for a in "NCHW"])
        return grid(pixels)
    if "C" not in axes:
        pixels = np.transpose(pixels, [axes.index(a) for a in "HW"])
        return np.stack([pixels] * 3, axis=2)
    pixels = np.transpose(pixels, [axes.index(a) for a in "HWC"])
    return np.concatenate([pixels] * 3, axis=2) if pixels.shape[2] == 1 else pixels


def grid(pictures: np.ndarray[Any, Any], columns: int = 8) -> np.ndarray[Any, Any]:
    """Several pictures in one, in rows."""
    if pictures.shape[1] == 1:
        pictures = np.concatenate([pictures] * 3, axis=1)
    count, colours, height, width = pictures.shape
    across = min(columns, count)
    down = -(-count // across)
    whole = np.zeros((height * down, width * across, colours), pictures.dtype)
    for k in range(count):
        y, x = divmod(k, across)
        place = whole[y * height : (y + 1) * height, x * width : (x + 1) * width]
        place[...] = pictures[k].transpose(1, 2, 0)
    return whole


def to_pixels(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whole numbers from 0 to 255; floats are shares of the brightest."""
    scale = 1.0 if pixels.dtype == np.uint8 else 255.0
    found: np.ndarray[Any, Any] = (pixels.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)
    return found


def picture(tag: str, pixels: np.ndarray[Any, Any]) -> Summary:
    """A record of pixels: rows, columns, colours."""
    from PIL import Image

    height, width, colours = pixels.shape
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    proto = Summary.Image(
        height=height, width=width, colorspace=colours, encoded_image_string=buffer.getvalue()
    )
    return Summary(value=[Summary.Value(tag=tag, image=proto)])


def figure_pixels(figure: Any, close: bool = False) -> np.ndarray[Any, Any]:
    """What a figure of matplotlib looks like: rows, columns, four colours."""
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())
    if close:
        pyplot.close(figure)
    return pixels


def pr_curve(
    tag: str, labels: Any, predictions: Any, thresholds: int = 127, weights: Any = None
) -> Summary:
    """Precision and recall, for thresholds between 0 and 1."""
    thresholds = min(thresholds, 127)
    truth = array_of(labels).reshape(-1).astype(bool)
    sure = array_of(predictions).reshape(-1).astype(np.float64)
    weight = np.ones_like(sure) if weights is None else array_of(weights).reshape(-1)
    place = np.clip(np.floor(sure * (thresholds - 1)), 0, thresholds - 1).astype(np.int64)
    right = np.bincount(place, truth * weight, thresholds)
    wrong = np.bincount(place, ~truth * weight, thresholds)
    tp, fp = np.cumsum(right[::-1])[::-1], np.cumsum(wrong[::-1])[::-1]
    tn, fn = fp[0] - fp, tp[0] - tp
    precision = tp / np.maximum(1e-10, tp + fp)
    recall = tp / np.maximum(1e-10, tp + fn)
    return pr_curve_raw(tag, np.stack([tp, fp, tn, fn, precision, recall]), thresholds)


def pr_curve_raw(tag: str, rows: Any, thresholds: int) -> Summary:
    """The same from counts."""
    from tensorboard.plugins.pr_curve.metadata import create_summary_metadata

    table = np.asarray(rows, np.float64)
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in table.shape])
    tensor = TensorProto(dtype="DT_FLOAT", float_val=table.reshape(-1).tolist(), tensor_shape=shape)
    metadata = create_summary_metadata(display_name=tag, description="", num_thresholds=thresholds)
    return Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)])


def hparams(settings: dict[str, Any], metrics: dict[str, Any], domains: Any) -> list[Summary]:
    """Settings of a run, and which metrics belong to it: three records."""
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    started = plugin_data_pb2.SessionStartInfo()
    infos = []
    for key, value in settings.items():
        info = api_pb2.HParamInfo(name=key)
        domain = (domains or {}).get(key)
        if isinstance(value, bool | np.bool_):
            started.hparams[key].bool_value = bool(value)
            info.type = api_pb2.DATA_TYPE_BOOL
        elif isinstance(value, str):
            started.hparams[key].string_value = value
            info.type = api_pb2.DATA_TYPE_STRING
        elif value is None:
            continue
        else:
            started.hparams[key].number_value = number_of(value)
            info.type = api_pb2.DATA_TYPE_FLOAT64
        for choice in domain or ():
            info.domain_discrete.values.add(
                **{_field(choice): choice if isinstance(choice, str | bool) else float(choice)}
            )
        infos.append(info)
    experiment = api_pb2.Experiment(
        hparam_infos=infos,
        metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metrics],
    )
    ended = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    version = metadata.PLUGIN_DATA_VERSION
    contents = (
        (
            metadata.EXPERIMENT_TAG,
            plugin_data_pb2.HParamsPluginData(experiment=experiment, version=version),
        ),
        (
            metadata.SESSION_START_INFO_TAG,
            plugin_data_pb2.HParamsPluginData(session_start_info=started, version=version),
        ),
        (
            metadata.SESSION_END_INFO_TAG,
            plugin_data_pb2.HParamsPluginData(session_end_info=ended, version=version),
        ),
    )
    return [
        Summary(
            value=[
                Summary.Value(
                    tag=tag,
                    metadata=SummaryMetadata(
                        plugin_data=SummaryMetadata.PluginData(
                            plugin_name=metadata.PLUGIN_NAME, content=content.SerializeToString()
                        )
                    ),
                )
            ]
        )
        for tag, content in contents
    ]


def _field(choice: Any) -> str:
    kind = "bool" if isinstance(choice, bool) else "string" if isinstance(choice, str) else "number"
    return f"{kind}_value"
