"""Questions that run out of memory go on with fewer images to the same answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from holdfast.data import Split
from holdfast.errors import ModelError, RecipeError
from holdfast.halving import BatchSize, Halved
from holdfast.questions.answers import AnswerKey, Store
from holdfast.questions.asking import Inquiry, answer_of, ask, digest_of
from holdfast.questions.question import Material
from tests.cramped import ERRORS, Cramped, on_a_gpu
from tests.zoo import images, labels, smooth

SPLIT = Split(images(20), labels(20, 5), torch.arange(20))


@dataclass(frozen=True)
class Largest:
    """The largest logit of each image."""

    columns: ClassVar[Mapping[str, str]] = {"largest": "the largest logit"}

    def measure(self, model, x, y, *, rng):
        return {"largest": model(x).amax(1)}


@dataclass(frozen=True)
class Sums:
    """Means of the logits at several scales, from passes over batches of all images."""

    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"mean": ("class",)}

    def count(self, material: Material) -> int:
        return 4

    def measure_records(self, material: Material, earlier: Sequence[object]) -> Iterator[Mapping[str, object]]:
        for scale in range(len(earlier), 4):
            pieces = [material.model(scale * part) for part in material.x.split(material.batch_size)]
            yield {"scale": scale, "mean": torch.cat(pieces).mean(0)}


def inquiry(measurement, model):
    key = AnswerKey(
        question="tried", settings={}, weights="best", weights_hash="0", seed=1, examples=len(SPLIT),
        images=digest_of(SPLIT), block=16,
    )  # fmt: skip
    where = torch.empty(0, dtype=torch.float64)
    return Inquiry(measurement=measurement, key=key, model=model, run="run", split=SPLIT, where=where, batch_size=8)


def answered(path, measurement, model, batch_size=None):
    store, one = Store(path), inquiry(measurement, model)
    path.mkdir()
    steps = list(ask(one, store, batch_size))
    return answer_of(one, store), steps


@pytest.mark.parametrize("fail", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("measurement", [Largest(), Sums()], ids=["examples", "records"])
def test_answers_are_those_of_an_undisturbed_question(tmp_path, measurement, fail):
    expected, steps = answered(tmp_path / "plenty", measurement, Cramped(smooth()))
    batch_size, cramped = BatchSize(8), Cramped(smooth(), 3, fail)
    answer, others = answered(tmp_path / "cramped", measurement, cramped, batch_size)
    assert answer.records == expected.records
    assert answer.rows.equals(expected.rows)
    assert steps[-1] == others[-1]
    assert batch_size.news() == Halved(8, 2)
    assert cramped.failures == 2


def test_one_image_that_does_not_fit_is_an_error_that_says_so(tmp_path):
    with pytest.raises(ModelError, match="out of memory with a single image"):
        answered(tmp_path / "none", Largest(), Cramped(smooth(), 0, on_a_gpu))


@dataclass(frozen=True)
class Misnamed(Largest):
    """Returns another column than it states."""

    def measure(self, model, x, y, *, rng):
        return {"large": model(x).amax(1)}


@dataclass(frozen=True)
class Short(Largest):
    """Returns one value for all images."""

    def measure(self, model, x, y, *, rng):
        return {"largest": model(x).amax(1).amax(0, keepdim=True)}


@dataclass(frozen=True)
class Untyped(Largest):
    """Returns a list of numbers."""

    def measure(self, model, x, y, *, rng):
        return {"largest": model(x).amax(1).tolist()}


@pytest.mark.parametrize(
    ("measurement", "message"),
    [
        (Misnamed(), "question tried: expected measure to return its columns, largest; got large"),
        (Short(), r"question tried: expected largest to be a tensor with 8 values; got shape \(1,\)"),
        (Untyped(), "question tried: expected largest to be a tensor with 8 values; got list"),
    ],
)
def test_columns_that_were_not_promised_are_refused_and_not_stored(tmp_path, measurement, message):
    with pytest.raises(RecipeError, match=message):
        answered(tmp_path / "run", measurement, smooth())
    assert not list(tmp_path.rglob("*.parquet"))
