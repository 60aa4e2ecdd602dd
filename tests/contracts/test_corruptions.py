"""What corruptions promise: they change images and nothing else."""

import dataclasses

import pytest
import torch

from holdfast.corruptions import CORRUPTIONS
from holdfast.rng import Streams
from holdfast.testing.untouched import same_random_states, same_tensors
from tests.contracts import cheap
from tests.zoo import images

NAMES = [("CORRUPTIONS", name) for name in CORRUPTIONS]
COUNT = 11
DETERMINISTIC = {"clean", "down_up", "low_pass", "energy_filter"}


def instance(family, name):
    return cheap.cheap(getattr(cheap, family), name, family)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("family", "name"), NAMES)
def test_images_stay_images_and_nothing_else_changes(family, name, dtype):
    x = images(COUNT, (3, 8, 8), dtype=dtype)
    with same_random_states(), same_tensors(x):
        z = instance(family, name)(x, rng=Streams(0, "", COUNT))
    assert (z.shape, z.dtype, z.device) == (x.shape, x.dtype, x.device)
    assert bool(((z >= 0) & (z <= 1)).all())


@pytest.mark.parametrize(("family", "name"), NAMES)
def test_each_image_changes_by_its_own_stream(family, name):
    change, x = instance(family, name), images(COUNT, (3, 8, 8))
    whole = change(x, rng=Streams(2, "c", COUNT))
    assert torch.equal(change(x, rng=Streams(2, "c", COUNT)), whole)
    assert torch.equal(change(x), change(x, rng=Streams(0, "", COUNT)))
    for rows in (torch.tensor([5]), torch.tensor([9, 0, 4])):
        assert torch.equal(change(x[rows], rng=Streams(2, "c", rows)), whole[rows])
    if name not in DETERMINISTIC:
        assert not torch.equal(change(x, rng=Streams(3, "c", COUNT)), whole)


@pytest.mark.parametrize(("family", "name"), NAMES)
def test_refuses_streams_of_another_batch(family, name):
    if name in DETERMINISTIC:
        pytest.skip("draws nothing")
    with pytest.raises(ValueError, match="3 random streams for a batch of 11"):
        instance(family, name)(images(COUNT, (3, 8, 8)), rng=Streams(0, "", 3))


@pytest.mark.parametrize(("family", "name"), NAMES)
def test_is_only_its_fields_which_do_not_change(family, name):
    change = instance(family, name)
    copy = dataclasses.replace(change)
    assert copy == change
    assert hash(copy) == hash(change)
    for field in dataclasses.fields(change):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(change, field.name, getattr(change, field.name))


def test_fields_are_named_where_there_are_several():
    # In Python two numbers in a row say nothing; recipes name them anyway.
    for name in ("occlusion", "stripes", "down_up", "chain", "low_pass", "energy_filter", "band_noise"):
        with pytest.raises(TypeError, match="positional argument"):
            CORRUPTIONS[name](1)
