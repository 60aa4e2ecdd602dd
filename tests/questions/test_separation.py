"""How far apart classes lie: closed forms, invariances, and scikit-learn as an oracle."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import calinski_harabasz_score, silhouette_score

from holdfast.questions.features.separation import (
    nearest_centroid,
    resampled,
    scatter_ratio,
    separation,
    silhouette,
)
from holdfast.rng import Streams
from holdfast.testing.untouched import same_random_states, same_tensors
from tests import chance

# Two classes on a line: 0, 2 and 10, 14.
LINE = torch.tensor([[0.0], [2.0], [10.0], [14.0]], dtype=torch.float64)
SIDES = torch.tensor([0, 0, 1, 1])
ONCE = torch.ones(1, 4, dtype=torch.float64)


def clusters(count=60, classes=4, dimensions=6, spread=1.0, distance=3.0, seed=0):
    """Normal clusters around random centres; the last class has twice the images."""
    labels = torch.cat([torch.full((count * (1 + (c == classes - 1)),), c) for c in range(classes)])
    centres = distance * Streams(seed, "centres", classes).normal(torch.empty(classes, dimensions).double())
    noise = Streams(seed, "points", len(labels)).normal(torch.empty(len(labels), dimensions).double())
    return centres[labels] + spread * noise, labels


def values(found):
    return [
        each.value for each in (found.silhouette, found.nearest_centroid, found.reference_centroid, found.scatter_ratio)
    ]


def test_four_points_on_a_line_have_the_values_by_hand():
    # a = 2, 2, 4, 4 and b = 12, 10, 9, 13.
    by_hand = (10 / 12 + 8 / 10 + 5 / 9 + 9 / 13) / 4
    assert silhouette(LINE, SIDES, ONCE).item() == pytest.approx(by_hand)
    # Centroids 1, 12 around 6.5; between 2 * 5.5^2 * 2, within 1 + 1 + 4 + 4.
    assert scatter_ratio(LINE, SIDES, ONCE).item() == pytest.approx(4 * 5.5**2 / 10)
    assert nearest_centroid(LINE, SIDES, ONCE, LINE).item() == 1.0


def test_an_image_is_never_judged_by_itself():
    # With its own share in the centroid, (0 + 4) / 2 = 2, the point 4 would lie nearest to its class; without, 0 is
    # farther than 7.
    points = torch.tensor([[0.0], [4.0], [7.0], [7.0]], dtype=torch.float64)
    assert nearest_centroid(points, SIDES, ONCE, points).item() == 0.75
    clean = torch.tensor([[0.0], [0.0], [9.0], [9.0]], dtype=torch.float64)
    noisy = torch.tensor([[5.0], [1.0], [8.0], [8.0]], dtype=torch.float64)
    found = separation(noisy, SIDES, reference=clean, resamples=0)
    assert found.reference_centroid.value == 0.75  # 5 is nearer to 9 than to 0
    assert found.nearest_centroid.value == 0.75  # and nearer to 8 than to 1


@pytest.mark.parametrize("distance", [0.0, 1.0, 3.0])
def test_agrees_with_scikit_learn(distance, monkeypatch):
    monkeypatch.setattr("holdfast.questions.features.separation.BLOCK", 37)
    x, y = clusters(distance=distance)
    found = separation(x + 100, y, resamples=0)
    assert found.silhouette.value == pytest.approx(silhouette_score(x.numpy(), y.numpy()), abs=1e-10)
    ratio = calinski_harabasz_score(x.numpy(), y.numpy()) * (4 - 1) / (len(y) - 4)
    assert found.scatter_ratio.value == pytest.approx(ratio, rel=1e-10)


def test_moving_turning_and_scaling_change_nothing():
    x, y = clusters()
    turn, _ = torch.linalg.qr(Streams(0, "turn", 6).normal(torch.empty(6, 6).double()))
    moved = 7.5 * (x @ turn) - 3
    assert values(separation(moved, 9 - y, resamples=0)) == pytest.approx(values(separation(x, y, resamples=0)))


def test_mixed_classes_have_the_values_of_chance():
    x, y = clusters(count=100, distance=0.0, dimensions=3)
    found = separation(x, y, resamples=0)
    assert abs(found.silhouette.value) < 0.05
    assert found.scatter_ratio.value == pytest.approx(3 / (len(y) - 4), abs=0.015)
    assert found.nearest_centroid.value < 0.4


def test_well_separated_clusters_have_nearly_the_ideal_values():
    x, y = clusters(spread=1e-3)
    found = separation(x, y, resamples=20)
    assert found.silhouette.value > 0.99
    assert found.nearest_centroid.value == 1.0
    assert found.scatter_ratio.value > 1e4


def test_the_scatter_ratio_of_gaussians_is_that_of_their_variances():
    """Two classes at distance 2 m with variance s^2 in D dimensions: m^2 / (D s^2)."""
    y = torch.arange(4000) % 2
    noise = Streams(0, "gaussian", 4000).normal(torch.empty(4000, 5).double())
    x = 0.5 * noise + torch.nn.functional.one_hot(y, 5) * torch.tensor([2.0, 0, 0, 0, 0]).double()
    assert scatter_ratio(x, y, torch.ones(1, 4000).double()).item() == pytest.approx(
        1 / (5 * 0.25), rel=chance.deviations() * math.sqrt(1 / 4000 + 2 / 20_000)
    )  # the distance of the classes varies by 1 / sqrt(4000), the variance by sqrt(2 / 20,000)


def test_the_bootstrap_error_is_that_of_fresh_samples():
    found = [separation(*clusters(count=25, distance=1.2, seed=0), resamples=200)]
    centres = 1.2 * Streams(0, "centres", 4).normal(torch.empty(4, 6).double())
    _, y = clusters(count=25)
    fresh = []
    for seed in range(60):
        x = centres[y] + Streams(seed, "fresh", len(y)).normal(torch.empty(len(y), 6).double())
        fresh.append(values(separation(x, y, resamples=0)))
    spread = np.std(fresh, axis=0)
    for name, error in zip(("silhouette", "nearest_centroid", "scatter_ratio"), spread[[0, 1, 3]], strict=True):
        assert 0.6 * error < getattr(found[0], name).error < 1.7 * error, name


def test_samples_are_drawn_within_classes_and_seeded():
    _, y = clusters(count=5)
    counts = resampled(y, 30, 1)
    assert counts.shape == (31, len(y))
    assert bool((counts[0] == 1).all())
    for label in range(4):
        assert bool((counts[:, y == label].sum(1) == (y == label).sum()).all())
    assert torch.equal(counts, resampled(y, 30, 1))
    assert not torch.equal(counts, resampled(y, 30, 2))
    assert torch.equal(counts[:11], resampled(y, 10, 1))


def test_copies_in_a_sample_do_not_bring_images_nearer_to_themselves():
    counts = torch.tensor([[2.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    # The image at 0 stands twice, the mean distance to others of its class is still 2.
    wanted = (2 * (12 - 2) / 12 + (10 - 2) / 10 + 1 - 4 / (28 / 3 - 0) + 1 - 4 / (40 / 3)) / 5
    # From 10 the class on the left is (10 + 10 + 8) / 3 away, from 14 it is (14 + 14 + 12) / 3.
    assert silhouette(LINE, SIDES, counts).item() == pytest.approx(wanted)


def test_leaves_everything_alone():
    x, y = clusters(count=5)
    with same_random_states(), same_tensors(x, y):
        separation(x, y, resamples=3)


@pytest.mark.parametrize(("labels", "came"), [([1, 1, 1, 1], "1 classes in 4"), ([3, 0, 1, 2], "4 classes in 4")])
def test_too_few_images_are_refused(labels, came):
    with pytest.raises(ValueError, match=f"two or more classes, one of them with two or more images; got {came}"):
        separation(LINE, torch.tensor(labels))


def test_an_image_alone_in_its_class_is_a_neighbour_and_not_judged():
    x, y = torch.tensor([[0.0], [2.0], [3.0]]), torch.tensor([0, 0, 1])
    found = separation(x, y, resamples=3)
    assert found.nearest_centroid.value == 0.5  # the image at 2 is nearer to 3 than to 0
    assert found.silhouette.value == pytest.approx((1 / 3 - 1 / 2 + 0) / 3)


def test_classes_that_collapse_to_points_are_infinitely_apart():
    x = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    found = separation(x, SIDES, resamples=4)
    assert found.silhouette.value == 1.0
    assert found.scatter_ratio.value == math.inf


@pytest.mark.parametrize("seed", range(5))
def test_features_that_are_all_equal_are_near_to_no_class(seed):
    draw = torch.Generator().manual_seed(seed)
    point, labels = torch.randn(1, 8, generator=draw), torch.randint(4, (60,), generator=draw)
    found = separation(point.expand(60, 8), labels, resamples=0)
    assert found.nearest_centroid.value == 0


def test_the_nearest_centroid_is_the_same_far_from_the_origin():
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(80) % 4
    features = torch.randn(80, 5, generator=draw, dtype=torch.float64) + labels[:, None]
    near, far = (separation(z, labels, resamples=0).nearest_centroid.value for z in (features, 1e-7 * features + 1))
    assert near == far > 0.3
