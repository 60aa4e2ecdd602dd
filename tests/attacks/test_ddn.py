import pytest
import torch

from holdfast.attacks import DDN
from holdfast.attacks.schedule import annealed
from holdfast.threat import L2
from tests.attacks.oracles import by_foolbox, distances, foolbox, subject
from tests.zoo import half_space, half_space_distance, images


def test_the_radius_shrinks_at_a_success_and_grows_at_a_failure():
    model = half_space()
    x = images(1, (12,), low=0.45, high=0.55)
    y, asked = model(x).argmax(1), []
    init = 1.3 * float(half_space_distance(model, x, "l2"))
    DDN(threat=L2(2.0), steps=12, gamma=0.1, init=init)(lambda z: (asked.append(z.detach().clone()), model(z))[1], x, y)
    radius, expected = [float((z - x).norm()) for z in asked[1:]], init
    for step in range(12):
        reached = bool(model(asked[1 + step]).argmax(1) != y)
        expected *= 0.9 if reached else 1.1
        assert radius[step + 1] == pytest.approx(expected)
    assert len({bool(model(z).argmax(1) != y) for z in asked[2:]}) == 2


def test_the_step_falls_from_one_to_a_hundredth_along_a_cosine():
    assert annealed(1.0, 0.01, 0, 50) == pytest.approx(1.0)
    assert annealed(1.0, 0.01, 25, 50) == pytest.approx(0.505)
    assert annealed(1.0, 0.01, 50, 50) == pytest.approx(0.01)


def test_agrees_with_foolbox_example_by_example():
    model, x, y = subject()
    threat = L2(8.0)
    ours = distances(threat, model, DDN(threat=threat)(model, x, y), x, y)
    theirs = distances(threat, model, by_foolbox(foolbox.attacks.DDNAttack(), model, x, y), x, y)
    assert float(ours.median()) == pytest.approx(float(theirs.median()), rel=0.01)
    assert int(((ours / theirs - 1).abs() < 0.02).sum()) >= 54


def test_a_zero_gradient_moves_nothing():
    x, y = images(3, (4,)), torch.zeros(3, dtype=torch.int64)

    def flat(z):
        return torch.stack((1 + 0 * z.sum(1), 0 * z.sum(1)), dim=1)

    asked = []
    found = DDN(threat=L2(1.0), steps=3)(lambda z: (asked.append(z.detach()), flat(z))[1], x, y)
    assert torch.equal(found, x)
    assert all(torch.equal(z, x) for z in asked)
