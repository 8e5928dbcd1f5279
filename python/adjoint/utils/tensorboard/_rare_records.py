"""What few programs log: vectors for the projector, sound, tensors, boxes, layouts of charts."""

from __future__ import annotations

import io
import os
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from adjoint.utils.tensorboard import _summaries

__all__ = ["RareRecords"]

_DTYPES = {"float32": "DT_FLOAT", "float64": "DT_DOUBLE", "int32": "DT_INT32", "int64": "DT_INT64"}


class RareRecords:
    """Methods of `SummaryWriter`."""

    _projector_config: Any = None

    def get_logdir(self) -> str:
        """The folder."""
        raise NotImplementedError

    def _add(self, summary: Any, step: Any, walltime: float | None) -> None:
        raise NotImplementedError

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Vectors for the projector, one a row, with a label and a picture for each."""
        vectors = _summaries.array_of(mat)
        if vectors.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        name = "00000" if global_step is None else f"{global_step:0>5}"
        below = os.path.join(name, tag.replace("/", "%%").replace(" ", "%20"))
        folder = os.path.join(self.get_logdir(), below)
        os.makedirs(folder, exist_ok=True)
        config = ProjectorConfig() if self._projector_config is None else self._projector_config
        entry = config.embeddings.add()
        entry.tensor_name = f"{tag}:{name}"
        entry.tensor_path = os.path.join(below, "tensors.tsv")
        _write_rows(os.path.join(folder, "tensors.tsv"), vectors.tolist())
        if metadata is not None:
            if len(metadata) != len(vectors):
                raise AssertionError("#labels should equal with #data points")
            entry.metadata_path = os.path.join(below, "metadata.tsv")
            rows = [row if metadata_header else [row] for row in metadata]
            rows = [list(metadata_header), *rows] if metadata_header else rows
            _write_rows(os.path.join(folder, "metadata.tsv"), rows)
        if label_img is not None:
            pictures = _summaries.array_of(label_img)
            if len(pictures) != len(vectors):
                raise AssertionError("#images should equal with #data points")
            entry.sprite.image_path = os.path.join(below, "sprite.png")
            entry.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
            _write_sprite(os.path.join(folder, "sprite.png"), pictures)
        self._projector_config = config
        with open(os.path.join(self.get_logdir(), "projector_config.pbtxt"), "w") as file:
            file.write(str(config))

    def add_tensor(
        self,
        tag: str,
        tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """The values of a tensor."""
        array = _summaries.array_of(tensor)
        if array.dtype.name not in _DTYPES:
            raise ValueError(f"{tag} has unsupported tensor dtype {array.dtype}")
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in array.shape])
        proto = TensorProto(
            dtype=_DTYPES[array.dtype.name], tensor_shape=shape, tensor_content=array.tobytes()
        )
        data = SummaryMetadata.PluginData(plugin_name="tensor")
        value = Summary.Value(tag=tag, tensor=proto, metadata=SummaryMetadata(plugin_data=data))
        self._add(Summary(value=[value]), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Sound: numbers from -1 to 1, one channel."""
        samples = _summaries.array_of(snd_tensor).squeeze()
        if samples.ndim != 1:
            raise AssertionError("input tensor should be 1 dimensional.")
        heard = (samples.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2")
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(sample_rate)
            file.writeframes(heard.data)
        audio = Summary.Audio(
            sample_rate=sample_rate,
            num_channels=1,
            length_frames=heard.size,
            encoded_audio_string=buffer.getvalue(),
            content_type="audio/wav",
        )
        self._add(Summary(value=[Summary.Value(tag=tag, audio=audio)]), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Sequence[str] | str | None = None,
    ) -> None:
        """A picture with boxes on it, each [left, top, right, bottom]."""
        from PIL import Image, ImageDraw

        boxes = _summaries.array_of(box_tensor)
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != len(boxes):
            labels = None
        pixels = _summaries.in_order(_summaries.array_of(img_tensor), dataformats)
        picture = Image.fromarray(_summaries.to_pixels(pixels))
        draw = ImageDraw.Draw(picture)
        for k, box in enumerate(boxes.tolist()):
            draw.rectangle(box, outline="red")
            if labels is not None:
                draw.text((box[0] + 2, max(box[1] - 12, 0)), labels[k], fill="red")
        size = [max(1, int(n * rescale)) for n in picture.size]
        drawn = np.asarray(picture.resize(size))
        self._add(_summaries.picture(tag, drawn), global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, Sequence[Any]]]) -> None:
        """How charts are laid out: ``{category: {chart: ["Multiline" or "Margin", tags]}}``."""
        categories = []
        for title, charts in layout.items():
            made = [_chart(name, *given) for name, given in charts.items()]
            categories.append(layout_pb2.Category(title=title, chart=made))
        content = layout_pb2.Layout(category=categories).SerializeToString()
        data = SummaryMetadata.PluginData(plugin_name="custom_scalars")
        tensor = TensorProto(
            dtype="DT_STRING", string_val=[content], tensor_shape=TensorShapeProto()
        )
        metadata = SummaryMetadata(plugin_data=data)
        tag = "custom_scalars__config__"
        value = Summary.Value(tag=tag, tensor=tensor, metadata=metadata)
        self._add(Summary(value=[value]), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of several lines."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of a value with bounds: three tags."""
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})


def _chart(title: str, kind: str, tags: Sequence[str]) -> Any:
    if kind == "Margin":
        value, lower, upper = tags
        series = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
        return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))
    return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))


def _write_rows(path: str, rows: Sequence[Any]) -> None:
    with open(path, "w", encoding="utf8") as file:
        file.writelines("\t".join(str(x) for x in row) + "\n" for row in rows)


def _write_sprite(path: str, pictures: np.ndarray[Any, Any]) -> None:
    """All pictures in one that is a square of them."""
    from PIL import Image

    across = int(np.ceil(np.sqrt(len(pictures))))
    padded = np.zeros((across * across, *pictures.shape[1:]), pictures.dtype)
    padded[: len(pictures)] = pictures
    Image.fromarray(_summaries.to_pixels(_summaries.grid(padded, across))).save(path)
