"""Distances of features on batches that were worked out by hand, and where they are zero or could be 0/0."""

import math

import pytest
import torch
import torch.nn.functional as F

from holdfast.objectives import EGA, NCE, RKD, Hint
from holdfast.objectives.embedding_distances import angles, relative_distances, standardised

Y = torch.tensor([0, 0, 1])
TRIANGLE = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
LINE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]], dtype=torch.float64)


def random(seed=0, count=6, size=4):
    return torch.randn(count, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_distances_are_in_units_of_their_mean():
    # Sides 3, 4 and 5, whose mean is 4.
    expected = torch.tensor([[0.0, 0.75, 1.0], [0.75, 0.0, 1.25], [1.0, 1.25, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(relative_distances(TRIANGLE), expected)


def test_angles_are_those_at_the_second_point():
    cosines = angles(TRIANGLE)
    assert float(cosines[1, 0, 2]) == pytest.approx(0)
    assert float(cosines[0, 1, 2]) == pytest.approx(0.6)
    assert float(cosines[0, 2, 1]) == pytest.approx(0.8)
    assert float(cosines[0, 1, 0]) == pytest.approx(1)
    assert float(cosines[1, 1, 2]) == 0


def test_rkd_of_a_triangle_and_a_line():
    # Line: distances 1, 3, 2 of mean 2. Differences of pairs: |.75 - .5|, |1 - 1.5|, |1.25 - 1|, each twice of 9.
    pairs = 2 * (0.25**2 + 0.5**2 + 0.25**2) / 2 / 9
    # Angles of the line: at its ends 1, in the middle -1; of the triangle 0 at (0, 0), .6 and .8 elsewhere.
    huber = [1.0 - 0.5, 1.6 - 0.5, 0.2**2 / 2]  # |0 - 1|, |.6 + 1|, |.8 - 1|
    triples = 2 * sum(huber) / 27
    result = RKD()(TRIANGLE, LINE, Y)
    assert float(result) == pytest.approx(25 * pairs + 50 * triples)


def test_ega_of_opposite_and_equal_correlations():
    s = torch.tensor([[1.0, -1.0], [1.0, -1.0]], dtype=torch.float64)
    t = torch.tensor([[2.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    # Correlations: within s all 1, within t 1 and -1; across (1, -1), (1, -1).
    nodes = math.sqrt(0 + 1 + 1 + 4)
    edges = math.sqrt(2 * 2**2)
    assert float(EGA()(s, t, Y[:2])) == pytest.approx(nodes + 0.3 * edges)
    assert float(EGA(node=0.0, edge=1.0)(s, t, Y[:2])) == pytest.approx(edges)


def test_correlations_are_pearsons():
    points = random()
    torch.testing.assert_close(standardised(points) @ standardised(points).mT, torch.corrcoef(points))


def test_hint_is_the_mean_square():
    assert float(Hint()(TRIANGLE, LINE, Y)) == pytest.approx((2**2 + 3**2 + 4**2) / 6)


def test_nce_of_orthogonal_features():
    s = t = torch.eye(3, dtype=torch.float64)
    e = math.exp(1 / 0.5)
    own, other = e / (e + 2), 1 / (e + 2)
    # Classes 0, 0, 1: near for the first two is the mean over both of their class, away the third.
    pair = -(math.log(own) + math.log(other)) / 2 - math.log(1 - other + 1e-6)
    single = -math.log(own) - math.log(1 - other + 1e-6)
    assert float(NCE(temperature=0.5)(s, t, Y)) == pytest.approx((2 * pair + single) / 3)


def test_nce_of_one_class_has_no_second_sum():
    # Public code divides 0 by 0 there.
    s, t = random(0), random(1)
    result = NCE()(s, t, torch.zeros(6, dtype=torch.int64))
    cosines = F.normalize(s, dim=1) @ F.normalize(t, dim=1).mT
    torch.testing.assert_close(result, -(cosines / 0.1).log_softmax(1).mean())


@pytest.mark.parametrize("distance", [RKD(), EGA(), Hint(), NCE()])
@pytest.mark.parametrize("kind", ["same points", "one example", "certain"])
def test_gradients_are_finite_where_distances_are_zero(distance, kind):
    source = {"same points": random()[:1].expand(4, -1), "one example": random()[:1], "certain": 100 * torch.eye(4)}
    s = source[kind].float().clone().requires_grad_()
    loss = distance(s, s.detach().clone(), torch.arange(len(s)) % 2)
    (grad,) = torch.autograd.grad(loss, s)
    assert bool(loss.isfinite())
    assert bool(grad.isfinite().all())


@pytest.mark.parametrize("distance", [RKD(), Hint()])
def test_equal_features_have_no_distance(distance):
    points = random()
    assert float(distance(points, points, torch.arange(6))) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "make",
    [lambda: RKD(distance=-1), lambda: EGA(edge=math.inf), lambda: NCE(temperature=0.0)],
)
def test_impossible_fields_are_refused(make):
    with pytest.raises(ValueError, match="must be"):
        make()
