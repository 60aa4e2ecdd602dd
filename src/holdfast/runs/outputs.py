r"""What a network computes, so that another network with equal weights is told from it.

Equal weights do not make two networks equal: the code around them may have changed. Its outputs on a few fixed images
tell. They are computed in float64 where the network allows it, on a copy, and kept as a few combinations

.. math:: s_{ij} = \sum_k \cos\bigl((j + 1)(k + 1)\bigr)\, f_k(x_i)

of the logits of each image, which differ wherever logits do and take little room for a thousand classes. Values rather
than a hash are kept, because another processor rounds differently.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.data.dataset import Split
from holdfast.halving import BatchSize
from holdfast.modes import evaluating
from holdfast.rng import Streams, global_generators
from holdfast.types import Classifier

IMAGES = 4
"""How many test images a network is asked about, spread over the split; each also with noise."""

NOISE = 0.1
"""Half-width of that uniform noise, so that code which treats odd images differently is met, too."""

COMBINATIONS = 2
"""Values kept for each image."""

TOLERANCES = {"float64": 1e-6, "float32": 2e-3}
"""Differences relative to the largest value that rounding, also that of other devices, may cause; else `COARSE`."""

COARSE = 5e-2
"""The same for shorter formats."""


@dataclass(frozen=True)
class Outputs:
    """What a network answers to a few fixed images.

    Args:
        precision: of the logits, such as `float64`.
        values: combinations of the logits of each image; None where they are not finite. Empty for a network whose
            answers are random however the global generators are seeded.
    """

    precision: str
    values: tuple[tuple[float | None, ...], ...]

    def facts(self) -> dict[str, Any]:
        """For `run.json`."""
        return asdict(self)

    def differs_from(self, recorded: Mapping[str, Any]) -> float | None:
        """By how much they differ from recorded ones, relative to the largest value; None where that is rounding."""
        mine, theirs = _numbers(self.values), _numbers(recorded.get("values", ()))
        if len(mine) != len(theirs):
            return math.inf
        largest = max((abs(value) for value in (*mine, *theirs) if math.isfinite(value)), default=0.0)
        difference = max((_gap(one, other) for one, other in zip(mine, theirs, strict=True)), default=0.0)
        relative = difference / largest if largest else difference
        allowed = max(_tolerance(self.precision), _tolerance(str(recorded.get("precision"))))
        return relative if relative > allowed else None

    def digest(self) -> str:
        """A hash that rounding hardly ever changes, for names."""
        digits = 6 if self.precision == "float64" else 2
        text = " ".join(f"{value:.{digits - 1}e}" for value in _numbers(self.values))
        return hashlib.sha256(text.encode()).hexdigest()


def outputs_of(model: Classifier, split: Split) -> Outputs:
    """What a network answers to fixed images of a split, in evaluation mode; nothing of the network changes."""
    x = _probes(split)
    try:
        return _outputs(_in_double(model), x.double())
    except Exception:  # noqa: BLE001  a foreign network may refuse float64, or to be copied, in any way
        return _outputs(model, x.to(_like(model)))


def _in_double(model: Classifier) -> Classifier:
    """A copy of a module in float64; a plain function is asked as it is."""
    return copy.deepcopy(model).double() if isinstance(model, nn.Module) else model


def _like(model: Classifier) -> Tensor:
    """A tensor with device and dtype of the first parameter, also of a module behind a wrapper."""
    parameters = getattr(model, "parameters", None)
    first = next(iter(parameters()), None) if callable(parameters) else None
    return torch.empty(0) if first is None else first.detach().new_empty(0)


def _probes(split: Split) -> Tensor:
    """A few images of the split, by index, and the same with noise."""
    order = split.index.argsort(stable=True)
    chosen = split.select(order[torch.linspace(0, len(split) - 1, min(IMAGES, len(split))).long()])
    x, _ = chosen.batch(slice(None))
    noise = Streams(0, "outputs", chosen.index).uniform(x).mul_(2 * NOISE).sub_(NOISE)
    return torch.cat((x, (x + noise).clamp(0, 1)))


def _outputs(model: Classifier, x: Tensor) -> Outputs:
    logits, again = _answers(model, x), _answers(model, x)
    precision = str(logits.dtype).removeprefix("torch.")
    first, second = (_combined(one) for one in (logits, again))
    same = Outputs(precision, first).differs_from({"precision": precision, "values": second}) is None
    return Outputs(precision, first if same else ())


def _combined(logits: Tensor) -> tuple[tuple[float | None, ...], ...]:
    """The combinations of the logits of each image that are kept."""
    classes = torch.arange(logits.shape[1], dtype=torch.float64) + 1
    factors = torch.outer(classes, torch.arange(COMBINATIONS) + 1.0).cos()
    exact = logits.detach().cpu().double()
    beyond = 1 + 2 * float(exact[exact.isfinite()].abs().max()) if exact.isfinite().any() else 1.0
    finite = exact.nan_to_num(nan=math.nan, posinf=beyond, neginf=-beyond)  # a class may be ruled out
    values = (finite @ factors).tolist()
    return tuple(tuple(value if math.isfinite(value) else None for value in row) for row in values)


def _answers(model: Classifier, x: Tensor) -> Tensor:
    where = _like(model).device

    def ask(rows: Sequence[int]) -> Tensor:
        return model(x[rows[0] : rows[-1] + 1].to(where))

    with evaluating(model), torch.no_grad(), global_generators(Streams(0, "outputs"), where):
        return torch.cat([logits for _, logits in BatchSize(len(x)).over(range(len(x)), ask)])


def _numbers(values: Any) -> list[float]:
    return [math.nan if value is None else float(value) for row in values for value in row]


def _gap(one: float, other: float) -> float:
    if math.isnan(one) or math.isnan(other):
        return 0.0 if math.isnan(one) and math.isnan(other) else math.inf
    return abs(one - other)


def _tolerance(precision: str) -> float:
    return TOLERANCES.get(precision, COARSE)
