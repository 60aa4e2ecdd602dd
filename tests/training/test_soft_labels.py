"""Soft labels on their way from augmentations to objectives."""

import dataclasses

import pytest
import torch

from holdfast.augment import AUGMENTATIONS, RandomCrop, Spider, augmented, soften
from holdfast.errors import RecipeError
from holdfast.losses import cross_entropy
from holdfast.objectives import OBJECTIVES, Standard
from holdfast.rng import Streams
from holdfast.runs import Run
from holdfast.training.loop import _Loop
from tests.contracts import cheap
from tests.training import tiny
from tests.zoo import images, labels, normed

WITHOUT_LABELS = {"align"}
"""Objectives that take any labels, since they do not look at them."""

TAKERS = [
    name for name, kind in OBJECTIVES.items() if getattr(kind, "soft_labels", False) and name not in WITHOUT_LABELS
]


@pytest.mark.parametrize("name", TAKERS)
def test_objectives_that_take_soft_labels_see_classes_as_certain_ones(name):
    x, y = images(9), labels(9, 3)
    certain = torch.nn.functional.one_hot(y, 3).to(x)
    model = normed(dropout=0.0)
    values = [cheap.OBJECTIVES[name](model, x, label, rng=Streams(0, "", 9)).total for label in (y, certain)]
    torch.testing.assert_close(*values)
    unsure = soften(y, torch.full((9,), 0.6, dtype=x.dtype), 3)
    assert not torch.isclose(values[0], cheap.OBJECTIVES[name](model, x, unsure, rng=Streams(0, "", 9)).total)


def test_adversarial_training_attacks_the_likeliest_class_and_learns_the_whole_label():
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Watched:
        threat: object = None

        def __call__(self, model, x, y, *, target=None, rng=None):
            seen.append(y)
            return x + 0.1

    model, x, y = normed(dropout=0.0), images(9), labels(9, 3)
    soft = soften(y, torch.full((9,), 0.6, dtype=x.dtype), 3)
    terms = dataclasses.replace(cheap.OBJECTIVES["adversarial"], attack=Watched())(model, x, soft)
    assert torch.equal(seen[0], y)
    torch.testing.assert_close(terms.total, cross_entropy(model(x + 0.1), soft).mean())


@pytest.mark.parametrize("name", sorted(set(OBJECTIVES) - set(TAKERS) - WITHOUT_LABELS))
def test_a_recipe_with_soft_labels_for_an_objective_of_classes_is_refused(name):
    # Only the combination is at stake: the fields that an objective must have are filled in.
    missing = dataclasses.MISSING
    fields = dataclasses.fields(OBJECTIVES[name])
    required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    filled = {"threat": "{linf: 0.1}"}
    objective = f"{{{name}: {{{', '.join(f'{field}: {filled.get(field, 1)}' for field in required)}}}}}"
    with pytest.raises(RecipeError) as refused:
        tiny.recipe("data.augment=[random_crop, {spider: {tau: 1}}]", f"train.objective={objective}")
    assert f"data.augment: spider softens labels, which train.objective {name} does not take" in str(refused.value)
    assert "standard" in str(refused.value)
    tiny.recipe("data.augment=[{spider: {tau: 1, smoothing: none}}]", f"train.objective={objective}")


def test_the_loop_passes_images_and_labels_through_all_augmentations(tmp_path):
    recipe = tiny.recipe("data.augment=[{random_crop: 1}, {spider: {tau: 1}}, {spider: {tau: 2, xi: 0.1}}]")
    loop = _Loop(recipe, tiny.splits(recipe), Run(tmp_path))
    seen = []

    def watched(model, x, y, *, rng=None):
        seen.append((x, y))
        return Standard()(model, x, y, rng=rng)

    loop.objective.objective = watched
    loop.advance()
    ((x, target),) = seen
    data = tiny.splits(recipe).train
    rows = loop.batches.rows(0, 0)
    z, y = data.batch(rows)
    for place, augmentation in enumerate((RandomCrop(padding=1), Spider(tau=1.0), Spider(tau=2.0, xi=0.1))):
        rng = Streams(recipe.seed, f"augment {place} in epoch 0", data.index[rows])
        z, y = augmented(augmentation, z, y, classes=10, rng=rng)
    assert torch.equal(x, z)
    assert torch.equal(target, y)
    assert target.shape == (8, 10)


def test_no_radius_trains_to_the_bits_of_plain_training(tmp_path):
    plain, nothing = tiny.recipe(), tiny.recipe("data.augment=[{spider: {tau: 0}}]")
    tiny.train(plain, tmp_path / "plain")
    tiny.train(nothing, tmp_path / "nothing")
    one, other = (tiny.outcome(tmp_path / name) for name in ("plain", "nothing"))
    assert one["weights"] == other["weights"]


@pytest.mark.parametrize("name", [*sorted(set(AUGMENTATIONS) - {"pixmix"}), "{pixmix: {pictures: 8}}"])
def test_every_augmentation_trains_the_digits(name, tmp_path):
    records = tiny.train(tiny.recipe(f"data.augment=[{name}]"), tmp_path)
    assert len(records) == tiny.RECORDS
