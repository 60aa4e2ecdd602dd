"""Corruptions in a row."""

import pytest
import torch

from holdfast.corruptions import Chain, DownUp, GaussianNoise, Occlusion, UniformNoise
from holdfast.recipe import describe, parse_recipes
from holdfast.rng import Streams
from holdfast.types import Corruption
from tests.zoo import images


def test_the_second_works_on_what_the_first_left():
    x, rng = images(4, (1, 6, 6)), Streams(3, "chain", 4)
    both = Chain(of=(Occlusion(count=1, size=3), DownUp(factor=2)))
    assert torch.equal(both(x, rng=rng), DownUp(factor=2)(Occlusion(count=1, size=3)(x, rng=rng.split("0"))))


def test_two_of_a_kind_draw_differently():
    x = torch.full((1, 1, 8, 8), 0.5)
    one = UniformNoise(0.1)(x, rng=Streams(0, "", 1).split("0")) - x
    two = Chain(of=(UniformNoise(0.1), UniformNoise(0.1)))(x) - x
    assert not torch.allclose(two, 2 * one)


def test_a_recipe_can_name_it():
    text = """
name: tiny
data: digits
model: linear
checks:
  - chain: {of: [{gaussian_noise: {sigma: 0.1}}, {occlusion: {count: 2, size: 3}}]}
"""
    (recipe,) = parse_recipes(text)
    assert recipe.checks == (Chain(of=(GaussianNoise(0.1), Occlusion(count=2, size=3))),)
    _, label, _ = describe(recipe.checks[0], Corruption)
    assert label == "chain gaussiannoise sigma=0.1 + occlusion count=2 size=3"


def test_none_is_refused():
    with pytest.raises(ValueError, match="of: expected at least one corruption"):
        Chain(of=())
