"""What augmentations promise: they change images, each by its own stream, and nothing else; labels soften sensibly."""

import dataclasses

import pytest
import torch

from holdfast.augment import AUGMENTATIONS, augmented, softens
from holdfast.recipe import parse_recipes
from holdfast.recipe.plain import plain
from holdfast.recipe.strict import parse
from holdfast.rng import Streams
from holdfast.testing.untouched import same_random_states, same_tensors
from holdfast.types import Augmentation, Softening
from tests.contracts import cheap
from tests.zoo import images, labels

KINDS = [
    ((3, 32, 32), torch.float32),
    ((1, 8, 8), torch.float32),
    ((3, 6, 5), torch.float64),
    ((2, 3, 3), torch.float32),
    ((1, 1, 1), torch.float32),
]
COUNT = 17
DETERMINISTIC = {"low_pass", "energy_filter"}
RANDOM = [name for name in AUGMENTATIONS if name not in DETERMINISTIC]


def instance(name):
    return cheap.cheap(cheap.AUGMENTATIONS, name, "AUGMENTATIONS")


def some(shape, dtype):
    """Images, the last three of them all black, all white and flat grey."""
    x = images(COUNT, shape, dtype=dtype).mul_(255).round_().div_(255)
    for row, value in enumerate((0.0, 1.0, 100 / 255)):
        x[row - 3] = value
    return x


def check_gives_images(augmentation, shape=(3, 8, 8), dtype=torch.float32):
    """Finite, in [0, 1], with shape, dtype and device of the images, which stay as they are."""
    x = some(shape, dtype)
    with same_random_states(), same_tensors(x):
        z = augmentation(x, rng=Streams(0, "", COUNT))
    assert (z.shape, z.dtype, z.device) == (x.shape, x.dtype, x.device)
    assert bool(z.isfinite().all())
    assert bool(((z >= 0) & (z <= 1)).all())


def check_belongs_to_the_example(augmentation, shape=(3, 8, 8), dtype=torch.float32, *, tolerance=0.0):
    """The same streams give the same bits; pieces of a batch, in any order, give the same."""
    x = some(shape, dtype)
    whole = augmentation(x, rng=Streams(2, "c", COUNT))
    assert torch.equal(augmentation(x, rng=Streams(2, "c", COUNT)), whole)
    assert torch.equal(augmentation(x), augmentation(x, rng=Streams(0, "", COUNT)))
    shuffled = torch.randperm(COUNT, generator=torch.Generator().manual_seed(1))
    for rows in (torch.tensor([5]), torch.tensor([COUNT - 1]), torch.arange(3, 10), shuffled):
        part = augmentation(x[rows], rng=Streams(2, "c", rows))
        assert float((part - whole[rows]).abs().max()) <= tolerance


@pytest.mark.parametrize(("shape", "dtype"), KINDS, ids=str)
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_gives_images_and_changes_nothing_else(name, shape, dtype):
    if name == "random_crop" and min(shape[1:]) < 3:
        pytest.skip("moves by more than the image has")
    check_gives_images(instance(name), shape, dtype)


@pytest.mark.parametrize(("shape", "dtype"), KINDS[:3], ids=str)
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_each_image_changes_by_its_own_stream_whatever_the_batch(name, shape, dtype):
    tolerance = cheap.ROUNDS.get(name, 0) * torch.finfo(dtype).eps
    check_belongs_to_the_example(instance(name), shape, dtype, tolerance=tolerance)


@pytest.mark.parametrize("name", RANDOM)
def test_other_seeds_change_images_otherwise(name):
    x = some((3, 8, 8), torch.float32)
    one, other = (instance(name)(x, rng=Streams(seed, "c", COUNT)) for seed in (2, 3))
    assert not torch.equal(one, other)
    same = torch.full((6, 3, 8, 8), 0.5) + torch.linspace(-0.4, 0.4, 8)
    assert len(instance(name)(same, rng=Streams(0, "", 6)).unique(dim=0)) > 1  # images of a batch differ, too


@pytest.mark.parametrize("name", RANDOM)
def test_refuses_streams_of_another_batch(name):
    with pytest.raises(ValueError, match="3 random streams for a batch of 11"):
        instance(name)(images(11, (3, 8, 8)), rng=Streams(0, "", 3))


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_an_empty_batch_stays_empty(name):
    empty = torch.empty(0, 3, 8, 8)
    assert instance(name)(empty, rng=Streams(0, "", 0)).shape == empty.shape


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_labels_stay_classes_or_become_distributions_around_them(name):
    x, y = some((3, 8, 8), torch.float32), labels(COUNT, 7)
    with same_tensors(x, y):
        z, target = augmented(instance(name), x, y, classes=7, rng=Streams(1, "", COUNT))
    assert torch.equal(z, instance(name)(x, rng=Streams(1, "", COUNT)))
    if not softens(instance(name)):
        assert target is y
        return
    assert isinstance(instance(name), Softening)
    assert target.shape == (COUNT, 7)
    torch.testing.assert_close(target.sum(1), torch.ones(COUNT))
    own = target.gather(1, y[:, None])
    assert bool((own >= target - 1e-7).all()), "another class is likelier than the label"
    assert bool((target >= 0).all())
    assert bool((own < 1).any())


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_is_a_frozen_record_that_a_recipe_can_hold(name):
    made = instance(name)
    assert parse(Augmentation, plain(made, Augmentation)) == made
    for field in dataclasses.fields(made):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, field.name, None)
    (recipe,) = parse_recipes(f"name: a\ndata: {{source: digits, augment: [{name}]}}\nmodel: linear")
    assert recipe.data.augment == (AUGMENTATIONS[name],)


class Brightens:
    def __call__(self, x, *, rng=None):
        return x + 0.5


class DrawsGlobally:
    def __call__(self, x, *, rng=None):
        return torch.rand_like(x)


class SeesPositions:
    def __call__(self, x, *, rng=None):
        return cheap.AUGMENTATIONS["spider"](x)


class WritesIntoItsArgument:
    def __call__(self, x, *, rng=None):
        return x.clamp_(0.1, 0.9)


class SeesTheBatch:
    def __call__(self, x, *, rng=None):
        return (x - x.mean()).clamp(0, 1)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Brightens(), check_gives_images),
        (DrawsGlobally(), check_gives_images),
        (WritesIntoItsArgument(), check_gives_images),
        (DrawsGlobally(), check_belongs_to_the_example),
        (SeesPositions(), check_belongs_to_the_example),
        (SeesTheBatch(), check_belongs_to_the_example),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_broken_augmentation_is_caught(broken, check):
    with pytest.raises(AssertionError):
        check(broken)
