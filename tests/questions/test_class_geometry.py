"""Closed forms, propositions 5.1 and 5.2 on constructed and random clusters, and brute force over all pairs."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import ModelError
from holdfast.questions.classes import measurement as module
from holdfast.questions.classes.measurement import (
    ClassGeometry,
    class_geometry,
    features_by_batch,
    geometry_of,
    propositions,
)
from tests.objectives.test_discriminative import B, Q, W, Y, close
from tests.zoo import generator, half_space, images, normed


def random_clusters(seed, *, spread=1.0, apart=5.0, classes=3, count=20, length=4):
    """Features around far points, labels, and the head of the nearest point."""
    random = generator(seed)
    points = apart * torch.randn(classes, length, dtype=torch.float64, generator=random)
    y = torch.arange(count) % classes
    q = points[y] + spread * torch.randn(count, length, dtype=torch.float64, generator=random)
    return q, y, 2 * points, -points.square().sum(1)


def test_numbers_of_a_small_example():
    found = geometry_of(Q, Y, W, B, delta_v=1.0)
    assert found.classes.tolist() == [0, 1]
    assert found.count.tolist() == [2, 3]
    close(found.dispersion, [2.0, 2.0])  # (1,0)-(3,0) and (0,2)-(0,4)
    close(found.radius, [1.0, (1 / 9 + 1) ** 0.5])
    assert found.within.tolist() == [2, 1]
    close(found.centroid_margin, [1.0606601718, 2.2391714738], rtol=0, atol=1e-10)  # computed apart
    close(found.centroid_norm, [2.0, (1 / 9 + 9) ** 0.5])
    close(found.centroid_distance[0, 1], ((5 / 3) ** 2 + 9) ** 0.5)
    # class 0: (1,0) has z = (1, .5, -1); class 1: (1,3) has z = (1, 3.5, -4) and (0,2) has z = (0, 2.5, -2)
    close(found.margin, [0.5 / 2**0.5, 2.5 / 2**0.5])
    close(found.mean_margin, [(0.5 + 2.5) / 2 / 2**0.5, (2.5 + 4.5 + 2.5) / 3 / 2**0.5])
    close(found.nearest_other, [5**0.5, 5**0.5])
    assert found.largest_norm == 4.0


def test_wrong_examples_make_the_margin_negative_where_the_papers_has_no_sign():
    q = torch.tensor([[2.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    weight = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    found = geometry_of(q, torch.tensor([0, 0]), weight)
    close(found.margin, [-1.0])
    unsigned = ((weight[0] - weight[1]) @ q.T).abs().amin() / (weight[0] - weight[1]).norm()  # definition 5.1
    close(unsigned, 1.0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 15), st.integers(5, 60))
def test_blocks_of_any_size_find_what_all_pairs_say(seed, classes, count, pairs):
    q, y, weight, bias = random_clusters(seed, classes=classes, count=count, apart=1.0)
    before, module.PAIRS = module.PAIRS, pairs
    try:
        found = geometry_of(q, y, weight, bias)
    finally:
        module.PAIRS = before
    for place, label in enumerate(found.classes.tolist()):
        mine, others = q[y == label], q[y != label]
        widest = max((float((a - b).norm()) for a, b in itertools.combinations(mine, 2)), default=0.0)
        nearest = min((float((a - b).norm()) for a in mine for b in others), default=float("inf"))
        assert float(found.dispersion[place]) == pytest.approx(widest, rel=1e-12)
        assert float(found.nearest_other[place]) == pytest.approx(nearest, rel=1e-12)


def test_far_from_the_origin_distances_keep_their_digits():
    q, y, weight, bias = random_clusters(0, spread=1e-6, apart=1e-5)
    here, there = geometry_of(q, y, weight, bias), geometry_of(q + 1e3, y, weight, bias)
    torch.testing.assert_close(there.dispersion, here.dispersion, rtol=1e-6, atol=0)
    torch.testing.assert_close(there.nearest_other, here.nearest_other, rtol=1e-6, atol=0)


def test_it_turns_and_scales_with_the_features():
    q, y, weight, bias = random_clusters(1)
    turn = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=generator(2)))[0]
    here, there = geometry_of(q, y, weight, bias), geometry_of(3 * q @ turn, y, weight @ turn, 3 * bias)
    for name in ("dispersion", "margin", "radius", "centroid_margin", "centroid_distance", "nearest_other"):
        torch.testing.assert_close(getattr(there, name), 3 * getattr(here, name), msg=name)


def verdicts(found, delta_v, delta_d):
    return {one.name: (one.premise, one.conclusion) for one in propositions(found, delta_v, delta_d)}


def test_compact_and_far_clusters_satisfy_all_three():
    q, y, weight, bias = random_clusters(3, spread=0.05, apart=20.0)
    found = geometry_of(q, y, weight, bias, delta_v=0.5)
    assert verdicts(found, 0.5, 5.0) == {"5.1": (True, True), "5.2.1": (True, True), "5.2.2": (True, True)}
    assert found.within.sum() == len(q)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 2), st.floats(0.5, 10))
def test_where_a_premise_holds_the_conclusion_does(seed, spread, apart):
    """With the measured radius and distance the premises hold whenever delta_d is large enough for the statement."""
    q, y, weight, bias = random_clusters(seed, spread=spread, apart=apart)
    found = geometry_of(q, y, weight, bias)
    said = verdicts(found, float(found.radius.max()), float(found.centroid_margin.min()))
    assert said["5.1"] == (True, True)
    assert all(conclusion or not premise for premise, conclusion in said.values())


def bare(**values):
    one = torch.ones(2, dtype=torch.float64)
    base = dict.fromkeys(("dispersion", "margin", "mean_margin", "radius", "centroid_margin", "nearest_other"), one)
    same = {"classes": torch.arange(2), "count": one.long(), "within": one.long(), "centroid_norm": one}
    return ClassGeometry(**{**base, **same, "centroid_distance": torch.eye(2), "largest_norm": 1.0, **values})


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ({"dispersion": torch.tensor([1.0, 2.1]).double()}, "5.1", (True, False)),
        ({"radius": torch.tensor([0.1, 1.1]).double()}, "5.1", (False, True)),
        ({"margin": torch.tensor([3.9, 9.0]).double()}, "5.2.1", (True, False)),
        ({"nearest_other": torch.tensor([0.9, 9.0]).double()}, "5.2.2", (True, False)),
        ({"centroid_margin": torch.tensor([4.9, 9.0]).double()}, "5.2.1", (False, False)),
    ],
)
def test_a_contradiction_would_be_told(values, name, expected):
    five = 5 * torch.ones(2, dtype=torch.float64)
    found = bare(**{"centroid_margin": five, **values})
    assert verdicts(found, 1.0, 5.0)[name] == expected


def test_a_distance_not_above_the_radius_promises_nothing():
    assert verdicts(bare(), 1.0, 1.0)["5.2.1"][0] is False
    assert verdicts(bare(centroid_margin=1.5 * torch.ones(2).double()), 1.0, 1.5)["5.2.2"][0] is False


def test_equal_rows_of_the_head_are_left_out():
    found = geometry_of(Q, Y, torch.ones(3, 2, dtype=torch.float64))
    assert bool(found.margin.isinf().all())


def test_features_come_in_batches_of_any_size():
    model, x = normed(), images(7)
    whole = torch.cat(list(features_by_batch(model, x)))
    parts = list(features_by_batch(model, x, batch_size=3))
    assert [len(part) for part in parts] == [3, 3, 1]
    torch.testing.assert_close(torch.cat(parts), whole)
    assert not whole.requires_grad
    with pytest.raises(ModelError, match="class geometry needs a model with features"):
        next(features_by_batch(half_space(16), x))


def test_nothing_to_measure_is_refused():
    with pytest.raises(ValueError, match="at least one example"):
        geometry_of(Q[:0], Y[:0], W)


def test_of_a_network_it_is_that_of_its_features():
    model, x, y = normed(), images(12), torch.arange(12) % 3
    found = class_geometry(model, x, y, delta_v=0.7, batch_size=5)
    with torch.no_grad():
        expected = geometry_of(model.features(x), y, model.head.weight, model.head.bias, delta_v=0.7)
    for name, value in vars(expected).items():
        torch.testing.assert_close(getattr(found, name), value)


def test_networks_that_are_more_than_their_head_are_refused():
    model = normed()
    model.forward = lambda x: 2 * model.head(model.features(x))
    with pytest.raises(ModelError, match=r"class geometry needs a model whose logits are head\(features\(x\)\)"):
        class_geometry(model, images(4), torch.arange(4) % 3)
