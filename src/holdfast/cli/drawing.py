"""Progress of runs on the screen: records of the library in, bars and lines out."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.cli.output import echo
from holdfast.cli.screen import Stop, between_steps, mention, say
from holdfast.cli.tensorboard import Board
from holdfast.show.numbers import percent, several
from holdfast.show.progress import Bar

if TYPE_CHECKING:
    from holdfast.conduct.asking import Asking
    from holdfast.conduct.checking import Checking
    from holdfast.conduct.jobs import Job
    from holdfast.conduct.runs import Failed, Prepared
    from holdfast.conduct.training import Trained, Training
    from holdfast.runs.directory import Run
    from holdfast.runs.splits import Splits
    from holdfast.training.records import Epoch

Result = TypeVar("Result")


def draw(records: Iterator[Any], *, quiet: bool = False, tensorboard: bool = False) -> list[Failed]:
    """Take all records of the library and draw them; an interruption waits for the end of a step of training.

    Args:
        records: the work.
        quiet: draw nothing.
        tensorboard: also write epochs for TensorBoard.

    Returns:
        The runs that failed.
    """
    from holdfast.conduct.runs import Failed

    failed: list[Failed] = []
    with Drawing(quiet=quiet, tensorboard=tensorboard) as drawing:
        for record in records:
            drawing(record)
            if isinstance(record, Failed):
                failed.append(record)
            if drawing.stop_requested:
                records.close()  # type: ignore[attr-defined]
                raise KeyboardInterrupt
    return failed


def drawn(records: Generator[Any, None, Result], *, quiet: bool = False) -> Result:
    """Draw the records of a generator and return what it returns."""
    result: list[Result] = []

    def taken() -> Iterator[Any]:
        result.append((yield from records))

    draw(taken(), quiet=quiet)
    return result[0]


class Drawing:
    """One bar for each stage of the work.

    Args:
        quiet: draw nothing.
        tensorboard: also write epochs for TensorBoard.
    """

    def __init__(self, *, quiet: bool = False, tensorboard: bool = False) -> None:
        self._bar, self._quiet, self._tensorboard = Bar(quiet=quiet), quiet, tensorboard
        self._stage, self._title = ExitStack(), ""
        self._show: Any = None
        self._stop: Stop | None = None
        self._requested = False
        self._note, self._alarms = "", dict[int, str]()
        self._board: Board | None = None

    def __enter__(self) -> Drawing:
        return self

    def __exit__(self, *error: object) -> None:
        self._end_stage()

    @property
    def stop_requested(self) -> bool:
        """Whether the user wants to stop between two steps of training."""
        return self._requested or (self._stop is not None and self._stop.requested)

    def __call__(self, record: Any) -> None:
        """Draw a record of the library."""
        getattr(self, f"_{type(record).__name__.lower()}", self._nothing)(record)

    def _nothing(self, record: object) -> None:
        self._end_stage()

    def _begin_stage(self, title: str, unit: str) -> None:
        if title != self._title:
            self._end_stage()
            self._title, self._show = title, self._stage.enter_context(self._bar.stage(title, unit))

    def _end_stage(self) -> None:
        self._requested = self.stop_requested  # also where it came with the last step
        self._stage.close()
        self._title, self._stop = "", None

    def _prepared(self, record: Prepared) -> None:
        from holdfast.conduct.ranks import is_first

        if is_first():
            mention_kept_images(record.job.run, record.splits)

    def _training(self, record: Training) -> None:
        from holdfast.conduct.progress_text import step_in_words
        from holdfast.conduct.ranks import is_first
        from holdfast.training.records import Epoch, Step

        if not is_first():
            return
        job, step = record.job, record.record
        if self._title != f"train {job.name}":
            self._begin_training(job)
        if isinstance(step, Epoch):
            self._epoch(job, step)
        elif isinstance(step, Step):
            self._show(step.step, step.total, step_in_words(step, self._note))
        else:
            mention(step.halved, job.name)
            doing = f"epoch {step.epoch}  preparing  {self._note}" if step.epoch else "fitting the transformation"
            self._show(step.done, step.total, doing)

    def _begin_training(self, job: Job) -> None:
        self._begin_stage(f"train {job.name}", "steps")
        self._stop = self._stage.enter_context(between_steps())
        self._note, self._alarms = "", {}
        self._board = Board(job.run.path / "tensorboard") if self._tensorboard else None

    def _epoch(self, job: Job, epoch: Epoch) -> None:
        from holdfast.conduct.progress_text import scores_in_words

        self._note = scores_in_words(epoch.validation)
        mention(epoch.halved, job.name)
        if epoch.alarm is not None:
            self._alarms[epoch.epoch] = epoch.alarm
        if self._board:
            self._board.add(epoch)

    def _trained(self, record: Trained) -> None:
        self._end_stage()
        name = record.job.name
        if self._alarms:
            epoch, alarm = min(self._alarms.items())
            say(f"{name}: from epoch {epoch} on ({several(len(self._alarms), 'epoch')}): {alarm}", quiet=self._quiet)
            self._alarms = {}
        if record.new and (fitted := record.job.run.info().get("fitted")):
            say(f"{name}: {fit_in_words(fitted)}", quiet=self._quiet)

    def _checking(self, record: Checking) -> None:
        subject, block = record.subject, record.block
        self._begin_stage(f"check {subject.run} ({subject.weights})", "images x checks")
        mention(block.halved, f"{subject.run} ({subject.weights})")
        self._show(block.done, block.total, block.check)

    def _asking(self, record: Asking) -> None:
        title = f"{record.question.replace('_', '-')} {record.run}"
        self._begin_stage(title, "done")
        mention(record.halved, title)
        self._show(record.done, record.total, "")

    def _failed(self, record: Failed) -> None:
        self._end_stage()
        echo(f"holdfast: {record.job.name} failed (the other runs continue): {record.reason}", err=True)


def mention_kept_images(run: Run, splits: Splits) -> None:
    """Print that a run keeps test images of its own, which other seeds do not share, and what to do about it."""
    if splits.kept:
        line = (
            f"{run.path}: keeps the test images of its results, which an earlier version drew with the run's seed; "
            f"`holdfast evaluate {run.path} --fresh` measures it on those that all seeds share"
        )
        echo(line, err=True)


def fit_in_words(fitted: Mapping[str, Any]) -> str:
    """What the fit of a composite's transformation chose, and what it achieves on the validation images."""
    chosen = "scale {scale:.3g}, power {power:.3g}, shift {shift:.3g}, strength {strength:.4g}".format(**fitted)
    kept, overruling = (percent(fitted[name]) for name in ("kept", "overruling"))
    return (
        f"fitted {chosen} (share of the robust network {fitted['share']:.4f}); on validation images the standard "
        f"network cannot overrule {kept} of {fitted['right_under_attack']} right answers under {fitted['attack']}, and "
        f"{overruling} of {fitted['wrong_on_clean']} wrong ones on clean images"
    )
