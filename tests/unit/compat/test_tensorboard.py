"""`utils.tensorboard`: what is written, TensorBoard's own reader reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad

pytest.importorskip("tensorboard")


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def test_scalars_histograms_and_text_are_read_back(tmp_path: Path) -> None:
    from adjoint.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", ad.tensor(1.0 / (step + 1)), step)
        writer.add_scalar("lr", 0.5, 7, walltime=12.0)
        writer.add_histogram("weights", ad.tensor([-1.0, 0.5, 0.5, 2.0]), 1)
        writer.add_text("note", "**hello**", 2)
        writer.add_pr_curve("pr", ad.tensor([0, 1, 1]), ad.tensor([0.1, 0.4, 0.9]), 0)
        assert writer.get_logdir() == str(tmp_path)
    found = read(tmp_path)
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [
        (0, 1.0),
        (1, 0.5),
        (2, pytest.approx(1 / 3)),
    ]
    assert found.Scalars("lr")[0].wall_time == 12.0
    (spread,) = found.Histograms("weights")
    value = spread.histogram_value
    assert (value.min, value.max, value.num, value.sum, value.sum_squares) == (-1, 2, 4, 2, 5.5)
    assert sum(value.bucket) == 4 and len(value.bucket) == len(value.bucket_limit)
    assert {"note/text_summary", "pr"} <= set(found.Tags()["tensors"])
    assert found.Tensors("note/text_summary")[0].tensor_proto.string_val == [b"**hello**"]


def test_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    import io

    from adjoint.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        red = ad.zeros(3, 4, 6)
        red[0] = 1.0
        writer.add_image("red", red)
        writer.add_image("grey", ad.full((2, 3), 128, dtype=ad.uint8), dataformats="HW")
        writer.add_images("several", ad.rand(10, 1, 4, 4))
        with pytest.raises(AssertionError, match="input format"):
            writer.add_image("bad", red, dataformats="HW")
    found = read(tmp_path)
    (event,) = found.Images("red")
    assert (event.width, event.height) == (6, 4)
    shown = image.open(io.BytesIO(event.encoded_image_string))
    assert shown.getpixel((0, 0)) == (255, 0, 0)
    assert (found.Images("several")[0].width, found.Images("several")[0].height) == (32, 8)


def test_several_scalars_and_settings_have_folders_of_their_own(tmp_path: Path) -> None:
    from adjoint.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tmp_path)
    writer.add_scalars("loss", {"train": 1.0, "test": 2.0}, 3)
    writer.add_hparams({"lr": 0.1, "name": "a", "wide": True}, {"acc": 0.9}, run_name="run")
    writer.close()
    assert read(tmp_path / "loss_train").Scalars("loss")[0].value == 1.0
    assert read(tmp_path / "loss_test").Scalars("loss")[0].value == 2.0
    assert read(tmp_path / "run").Scalars("acc")[0].value == pytest.approx(0.9)
    writer.add_scalar("again", 1.0)  # a new file
    writer.close()


def test_what_is_not_there_says_so(tmp_path: Path) -> None:
    from adjoint.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(NotImplementedError, match="add_images"):
            writer.add_video("v", ad.zeros(1, 1, 3, 2, 2))
        with pytest.warns(UserWarning, match=r"adjoint\.graph"):
            writer.add_graph(ad.nn.Linear(1, 1))
        with pytest.raises(AssertionError):
            writer.add_scalar("x", ad.ones(3))


def test_without_the_package_the_command_is_named(tmp_path: Path) -> None:
    (tmp_path / "tensorboard.py").write_text("raise ModuleNotFoundError('hidden')")
    program = "import torch.utils.tensorboard"
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "run", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "ImportError: " in done.stderr and "fix: pip install tensorboard" in done.stderr


def test_sound_tensors_and_layouts_are_read_back(tmp_path: Path) -> None:
    from adjoint.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("tone", ad.tensor([0.0, 1.0, -1.0]), 1, sample_rate=8000)
        writer.add_tensor("values", ad.tensor([[1.0, 2.0]]), 1)
        writer.add_custom_scalars({"all": {"loss": ["Multiline", ["a", "b"]]}})
        writer.add_custom_scalars_marginchart(["a", "b", "c"])
        with pytest.raises(AssertionError, match="1 dimensional"):
            writer.add_audio("tone", ad.zeros(2, 3))
        with pytest.raises(AssertionError, match="Expected 3 tags, got 1"):
            writer.add_custom_scalars_marginchart(["a"])
        with pytest.raises(ValueError, match="unsupported tensor dtype"):
            writer.add_tensor("values", ad.tensor([True]))
    found = read(tmp_path)
    (sound,) = found.Audio("tone")
    assert sound.sample_rate == 8000 and sound.length_frames == 3
    assert sound.encoded_audio_string[-6:] == b"\0\0\xff\x7f\x01\x80"
    (kept,) = found.Tensors("values")
    assert [d.size for d in kept.tensor_proto.tensor_shape.dim] == [1, 2]
    assert "custom_scalars__config__" in found.Tags()["tensors"]


def test_vectors_for_the_projector(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    from adjoint.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        vectors, pictures = ad.arange(6.0).view(3, 2), ad.rand(3, 3, 4, 4)
        writer.add_embedding(vectors, ["a", "b", "c"], pictures, global_step=2, tag="t")
        writer.add_embedding(vectors, [[1, 2]] * 3, metadata_header=["x", "y"])
        for wrong in (lambda: writer.add_embedding(ad.ones(3)), lambda: _labelled(writer, ["a"])):
            with pytest.raises(AssertionError, match=r"mat should be 2D|#labels should equal"):
                wrong()
        with pytest.raises(AssertionError, match="#images should equal"):
            writer.add_embedding(vectors, label_img=pictures[:1])
    assert (tmp_path / "00002/t/tensors.tsv").read_text().splitlines()[1] == "2.0\t3.0"
    assert (tmp_path / "00002/t/metadata.tsv").read_text() == "a\nb\nc\n"
    assert (tmp_path / "00002/t/sprite.png").stat().st_size > 0
    assert (tmp_path / "00000/default/metadata.tsv").read_text().startswith("x\ty\n1\t2\n")
    text = (tmp_path / "projector_config.pbtxt").read_text()
    assert text.count("embeddings {") == 2 and "00002/t/sprite.png" in text


def _labelled(writer: Any, labels: list[str]) -> None:
    writer.add_embedding(ad.ones(3, 2), labels)


def test_boxes_are_drawn(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    import io

    from adjoint.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        boxes = ad.tensor([[1, 1, 5, 5]])
        writer.add_image_with_boxes("b", ad.zeros(3, 8, 8), boxes, labels="cat", rescale=1)
    (found,) = read(tmp_path).Images("b")
    picture = image.open(io.BytesIO(found.encoded_image_string))
    assert picture.size == (8, 8) and picture.getpixel((1, 5)) == (255, 0, 0)
