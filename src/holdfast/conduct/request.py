"""What is to be made ready: a network and the images to test it on, as a command or a caller states them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from holdfast.checks import Check
from holdfast.data.dataset import Source
from holdfast.recipe.schema import DataRecipe
from holdfast.runs.code import TrustedCode
from holdfast.runs.directory import Run
from holdfast.runs.foreign import Foreign


@dataclass(frozen=True, kw_only=True)
class Images:
    """Which images a network is tested on, where they are not simply those of its run.

    Args:
        source: where they come from; None for that of the run.
        subset: how many, drawn at random and balanced over the classes; None for all.
        first: how many, from the first on; None for all.
    """

    source: Source | None = None
    subset: int | None = None
    first: int | None = None

    def of(self, own: Source) -> DataRecipe | None:
        """The images where the run has `own`; None for exactly those of the run."""
        if self == Images():
            return None
        return DataRecipe(source=self.source or own, test_subset=self.subset, test_first=self.first)

    @property
    def part(self) -> str:
        """Ending of a run's name for the images chosen."""
        first = "" if self.first is None else f"-first-{self.first}"
        return first if self.subset is None else f"-{self.subset}"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A network to be made ready, and what to do with it.

    Args:
        network: the directory of a run, weights by holdfast, or a network that holdfast did not train.
        images: what to test it on.
        checks: what to try on it; None for the checks of its run, and for `quick` where it has none.
        evaluate: fields of `evaluate` that differ from those of its run.
        name: of a run that is new; None for one after the network and its images.
        out: directory of runs that are new.
        data_root: directory with data sets.
        device: where the network goes.
        trust: which code that files name may run.
        fresh: whether earlier results are deleted.
        runs_checks: whether the checks are run; questions may look at none of them.
    """

    network: Path | Foreign
    images: Images = field(default_factory=Images)
    checks: Sequence[Check] | None = None
    evaluate: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    out: Path = Path("runs")
    data_root: Path | None = None
    device: torch.device
    trust: TrustedCode = False
    fresh: bool = False
    runs_checks: bool = True


Hold = Callable[[Run], None]
"""Keeps others out of a run's directory until the work ends."""
