import pytest
import torch

from holdfast.attacks import DeepFool
from holdfast.threat import L2, Linf
from holdfast.wrappers import Counted
from tests.attacks.oracles import by_foolbox, distances, foolbox, subject
from tests.zoo import THREAT_KINDS, half_space, half_space_distance, half_space_points, images, linear


@pytest.mark.parametrize("kind", ["linf", "l2"])
def test_one_step_ends_behind_the_boundary_of_a_half_space(kind):
    model = half_space()
    x, y = half_space_points(model)
    threat = THREAT_KINDS[kind](1.0)
    counted = Counted(model, torch.zeros(len(x), dtype=torch.int64))
    z = DeepFool(threat=threat)(counted, x, y)
    expected = 1.02 * (half_space_distance(model, x, kind) + 1e-4)
    torch.testing.assert_close(threat.distance(z, x), expected, rtol=1e-9, atol=0)
    assert counted.counts.tolist() == [3] * len(x)  # the clean image, the step, and the look that ends it


def test_only_the_candidates_are_considered():
    # Class 2 is nearer than class 1 but less likely at x.
    weight = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 9.0]], dtype=torch.float64)
    bias = torch.tensor([1.0, 0.7, -1.0], dtype=torch.float64)
    x, y = torch.full((1, 2), 0.1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    near, likely = (DeepFool(threat=L2(1.0), candidates=k)(lambda z: z @ weight.T + bias, x, y) for k in (2, 1))
    assert (near @ weight.T + bias).argmax(1).item() == 2
    assert (likely @ weight.T + bias).argmax(1).item() == 1


def test_the_lost_leave_the_batch():
    model, x = linear(4), images(12)
    y, sizes = model(x).argmax(1), []
    DeepFool(threat=Linf(1.0), steps=8)(lambda z: (sizes.append(len(z)), model(z))[1], x, y)
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) < 10


@pytest.mark.parametrize(
    ("threat", "oracle"),
    [(Linf(1.0), foolbox.attacks.LinfDeepFoolAttack), (L2(8.0), foolbox.attacks.L2DeepFoolAttack)],
    ids=str,
)
def test_agrees_with_foolbox_example_by_example(threat, oracle):
    model, x, y = subject()
    ours = distances(threat, model, DeepFool(threat=threat)(model, x, y), x, y)
    theirs = distances(threat, model, by_foolbox(oracle(), model, x, y), x, y)
    assert bool(ours.isfinite().all())
    # Rounding may choose another boundary now and then.
    assert int(((ours / theirs - 1).abs() < 1e-3).sum()) >= 57
