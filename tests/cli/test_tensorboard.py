"""TensorBoard events hold what the epochs say."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from holdfast.cli.tensorboard import Board
from holdfast.errors import RecipeError
from holdfast.training import Epoch


def test_every_number_of_an_epoch_is_an_event(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own
        pytest.importorskip("tensorboard")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        Board(tmp_path).add(Epoch(3, 30, 0.1, {"total": 1.5}, {"accuracy": 0.75}, True, 2.0))
        events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == {"lr", "seconds", "train/total", "validation/accuracy"}
    (event,) = events.Scalars("validation/accuracy")
    assert (event.step, event.value) == (3, 0.75)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(RecipeError, match=r"holdfast\[tensorboard\]"):
        Board(tmp_path)
