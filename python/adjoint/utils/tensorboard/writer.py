"""`SummaryWriter`: a program's log for TensorBoard."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

import numpy as np
from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from adjoint.utils.tensorboard import _summaries
from adjoint.utils.tensorboard._rare_records import RareRecords

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """A file of events in a folder."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        self._writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return str(self._writer.get_logdir())

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self._writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write what TensorBoard shows."""
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write everything to the disk."""
        self._writer.flush()

    def close(self) -> None:
        """Write everything and close the file."""
        self._writer.close()

    def reopen(self) -> None:
        """Do nothing: a file that is closed stays closed."""


class SummaryWriter(RareRecords):
    """Write scalars, histograms, pictures and text to a folder that TensorBoard reads.

    Parameters
    ----------
    log_dir
        The folder; by default ``runs/DATE_HOST`` with `comment` behind it.
    comment
        For the default folder.
    purge_step
        After a crash: what was logged from this step on is to be forgotten.
    max_queue, flush_secs
        How many events, and how many seconds, are kept before they are written.
    filename_suffix
        The end of the file's name.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, *self._options)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                step, self.purge_step = self.purge_step, None
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                log = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=step, session_log=log))
        return self.file_writer

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, summary: Any, step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    # -- what is logged --------------------------------------------------------------------------
    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number at a step."""
        summary = _summaries.scalar(tag, scalar_value, new_style, double_precision)
        self._add(summary, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers for one chart; each has a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            name = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            assert self.all_writers is not None
            if name not in self.all_writers:
                self.all_writers[name] = FileWriter(name, *self._options)
            summary = _summaries.scalar(main_tag, value)
            self.all_writers[name].add_summary(summary, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are spread."""
        self._add(_summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Sequence[Any],
        bucket_counts: Sequence[Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """The same from buckets that are counted already."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        summary = _summaries.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(summary, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture (needs the package pillow)."""
        self._add(_summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Pictures, side by side in one."""
        self._add(_summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or several."""
        figures = figure if isinstance(figure, list) else [figure]
        pixels = np.stack([_summaries.figure_pixels(one, close) for one in figures])
        self.add_image(tag, pixels, global_step, walltime, dataformats="NHWC")

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Text, in Markdown."""
        self._add(_summaries.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall."""
        summary = _summaries.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(summary, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Settings of a run and how it went."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        name = run_name or str(time.time())
        with SummaryWriter(os.path.join(self.log_dir, name)) as inner:
            for record in _summaries.hparams(hparam_dict, metric_dict, hparam_domain_discrete):
                inner._add(record, None, None)
            for key, value in metric_dict.items():
                inner.add_scalar(key, value, global_step)

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Nothing, with a note: there is no translated graph of a module."""
        warnings.warn(
            "SummaryWriter.add_graph writes nothing: adjoint has no translated graph of a module. "
            "adjoint.graph(model(x)) shows what was computed.",
            stacklevel=2,
        )

    def add_video(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: see the message."""
        _refuse("add_video", "add_images() shows frames side by side")

    def add_mesh(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: see the message."""
        _refuse("add_mesh", "add_figure() shows a picture of it")

    # -- the end ----------------------------------------------------------------------------------
    def flush(self) -> None:
        """Write everything to the disk."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write everything and close the files; a later call opens new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse(name: str, fix: str) -> NoReturn:
    raise NotImplementedError(f"SummaryWriter.{name} is not there.\n  fix: {fix}")
