"""Questions without a network: a data set alone, or neither a network nor data."""

from __future__ import annotations

from pathlib import Path

import torch

from holdfast.conduct.ready import NO_IMAGES, Ready
from holdfast.conduct.request import Hold, Images
from holdfast.data.dataset import Source
from holdfast.recipe.schema import DataRecipe, EvaluateRecipe
from holdfast.runs.directory import Run
from holdfast.runs.identity import refuse_others
from holdfast.runs.splits import Splits, prepare


def images_alone(
    source: Source, images: Images, hold: Hold, *, out: Path = Path("runs"), data_root: Path | None = None
) -> Ready:
    """Test images of a data set without a network, with a directory of their own for answers about them.

    Args:
        source: where they come from.
        images: which of them.
        hold: keeps others out of the directory.
        out: directory of runs.
        data_root: directory with data sets.
    """
    recipe = DataRecipe(source=source, test_subset=images.subset, test_first=images.first)
    splits = prepare(recipe, 0, data_root)
    run = Run(out / "data" / f"{splits.name}{images.part}")
    hold(run)
    refuse_others(run, splits, remedy="choose another --out")
    run.record(name=run.path.name, data=splits.facts())
    return _without_network(run, splits)


def theory_alone(hold: Hold, *, out: Path = Path("runs")) -> Ready:
    """Neither a network nor images, with a directory for answers of theory."""
    run = Run(out / "theory")
    hold(run)
    run.record(name="theory")
    return _without_network(run, NO_IMAGES)


def _without_network(run: Run, splits: Splits) -> Ready:
    return Ready(run, (), splits, (), EvaluateRecipe(), 0, torch.device("cpu"))
