"""What each defence does to images, and what votes are."""

import math

import pytest
import torch

from holdfast.corruptions.common.digital import jpeg_compression
from holdfast.ensembles import JPEG, BitDepth, Defended, FeatureDistillation, GaussianVotes
from holdfast.ensembles.defences import blocks, keys_of_images, unblocked
from holdfast.frequency import dct
from holdfast.gradients import input_gradient
from holdfast.losses import margin
from holdfast.rng import Streams
from tests import chance
from tests.zoo import images, linear


def test_bit_depth_has_so_many_levels_and_takes_the_nearest():
    x = torch.linspace(0, 1, 601, dtype=torch.float64)[:, None, None, None]
    z = BitDepth(levels=4)(x)
    assert z.unique().tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert (z - x).abs().max() <= 1 / 6 + 1e-12


def test_jpeg_is_the_corruption():
    x = images(3, (3, 16, 16))
    assert torch.equal(JPEG()(x), jpeg_compression(x, (75,), Streams(0, "", 3)))


def test_feature_distillation_leaves_multiples_of_its_steps():
    x = images(2, (3, 16, 24)) * 0.2 + 0.4  # nothing is clipped
    defence = FeatureDistillation()
    coefficients = dct(blocks(defence(x))) * 255
    step = torch.full((8, 8), 30.0, dtype=torch.float64)
    step[:4, :4] = 25
    torch.testing.assert_close(coefficients / step, (coefficients / step).round(), rtol=0, atol=1e-9)
    assert ((coefficients - dct(blocks(x)) * 255).abs() <= step / 2 + 1e-6).all()
    torch.testing.assert_close(defence(defence(x)), defence(x))


def test_a_flat_image_keeps_a_mean_within_half_a_step():
    # The mean of a block is its first coefficient over 8: steps of 25 / 8 / 255.
    x = torch.full((1, 1, 9, 10), 100 / 255, dtype=torch.float64)
    assert torch.allclose(FeatureDistillation()(x), torch.full_like(x, 32 * 25 / 8 / 255))


def test_blocks_are_blocks():
    x = images(2, (3, 16, 24))
    assert torch.equal(blocks(x)[1, 2, 1, 2], x[1, 2, 8:16, 16:24])
    assert torch.equal(unblocked(blocks(x)), x)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: BitDepth(levels=1), "levels"),
        (lambda: JPEG(quality=96), "quality"),
        (lambda: FeatureDistillation(low=0), "low"),
        (lambda: GaussianVotes(sigma=math.inf), "sigma"),
        (lambda: GaussianVotes(copies=0), "copies"),
    ],
)
def test_impossible_fields_are_refused(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()


def test_votes_are_as_frequent_as_their_probability():
    """A half-space at distance d gets the votes of the normal distribution at d / sigma."""
    weight = torch.tensor([[0.0] * 4, [1.0] * 4], dtype=torch.float64)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2, bias=False).double())
    network[1].weight.data = weight
    x = images(400, (1, 2, 2)) * 0.2
    assert len(keys_of_images(x).unique()) == 400
    defended = Defended(network, GaussianVotes(sigma=0.25, copies=50))
    votes = defended(x).exp() * 52 - 1
    torch.testing.assert_close(votes, votes.round(), rtol=0, atol=1e-9)
    assert votes.sum(1).tolist() == pytest.approx([50] * 400)
    probability = torch.special.ndtr(x.sum((1, 2, 3)) / 0.5).mean()  # the noise of w x deviates by 0.25 * 2
    share = float(votes[:, 1].sum()) / 20000
    assert abs(share - float(probability)) < chance.deviations() * math.sqrt(0.25 / 20000)


def test_votes_of_an_image_are_its_own():
    defended = Defended(linear(3, (1, 4, 4)), GaussianVotes(sigma=1.0, copies=20))
    x = images(1, (1, 4, 4)).expand(5, -1, -1, -1)
    assert (defended(x) == defended(x[:1])).all()
    nudged = x[:1] + 2 / 255
    assert int(keys_of_images(nudged)) != int(keys_of_images(x[:1]))
    assert torch.equal(keys_of_images(x.float()), keys_of_images(x))


def test_the_gradient_of_votes_is_that_of_the_sums_of_probabilities():
    network, y = linear(3, (1, 2, 2)), torch.tensor([0, 2])
    x, of = images(2, (1, 2, 2)), GaussianVotes(sigma=0.5, copies=6)
    _, gradient, _ = input_gradient(margin, Defended(network, of), x, y)

    def soft(z):
        streams = Streams(0, "votes", keys_of_images(x))
        noise = [0.5 * streams.split(f"copy {number}").normal(x) for number in range(6)]
        return (sum(network(z + each).softmax(1) for each in noise) + 1).log()

    _, expected, _ = input_gradient(margin, soft, x, y)
    votes = Defended(network, of)(x).argmax(1)
    same = votes == soft(x).argmax(1)  # the margin is to the same class
    torch.testing.assert_close(gradient[same], expected[same])
