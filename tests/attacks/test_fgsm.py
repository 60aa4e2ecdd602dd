import pytest
import torch

from holdfast.attacks import FGSM
from holdfast.losses import margin
from holdfast.threat import L1, L2, Linf
from tests.zoo import THREAT_KINDS, half_space, half_space_distance, half_space_points, images, linear


@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_reaches_the_optimum_of_a_half_space_far_from_the_box(kind):
    model = half_space()
    x, y = half_space_points(model)
    eps = {"linf": 0.05, "l2": 0.2, "l1": 0.3}[kind]
    z = FGSM(threat=THREAT_KINDS[kind](eps))(model, x, y)
    truth = half_space_distance(model, x, kind)
    with torch.no_grad():
        gained = (model.signed(x) - model.signed(z)).abs()
    torch.testing.assert_close(gained, eps * model.signed(x).abs().detach() / truth)
    assert torch.equal(model(z).argmax(1) != y, truth < eps)


@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_is_optimal_on_a_linear_model_even_where_the_box_cuts_the_ball(kind):
    # The corners of a linear program: no feasible point, and no other corner of ball and box, has a higher margin.
    model, eps = half_space(6), {"linf": 0.3, "l2": 0.5, "l1": 0.8}[kind]
    threat = THREAT_KINDS[kind](eps)
    x = images(60, (6,), seed=2)
    y = model(x).argmax(1)
    best = margin(model(FGSM(threat=threat, loss=margin)(model, x, y)), y)
    for seed in range(40):
        other = threat.project_exact(x + 3 * eps * (images(60, (6,), seed=seed + 10) - 0.5), x)
        assert bool((margin(model(other), y) <= best + 1e-12).all())


def test_is_the_linear_program_of_the_margin_in_l1():
    from scipy.optimize import linprog

    model, x = half_space(5), images(6, (5,))
    y = model(x).argmax(1)
    z = FGSM(threat=L1(0.7), loss=margin)(model, x, y)
    weight = model.weight.detach().numpy()
    for i in range(6):
        toward = weight if int(y[i]) == 0 else -weight  # maximise <toward, p - q>, z = x + p - q
        start = x[i].numpy()
        found = linprog(
            [*-toward, *toward],
            A_ub=[[1] * 10],
            b_ub=[0.7],
            bounds=[(0, 1 - a) for a in start] + [(0, a) for a in start],
        )
        assert float(toward @ (z[i].numpy() - start)) == pytest.approx(-found.fun, abs=1e-9)


def test_is_the_sign_step_in_linf():
    model, x = linear(3), images(5)
    y = model(x).argmax(1)
    z = FGSM(threat=Linf(0.07), loss=margin)(model, x, y)
    second = model(x).scatter(1, y[:, None], -torch.inf).argmax(1)
    direction = (model.weight[second] - model.weight[y]).sign().view_as(x)
    torch.testing.assert_close(z, (x + 0.07 * direction).clamp(0, 1).detach())


def test_asks_the_model_once():
    asked = []
    model = linear(3)
    FGSM(threat=L2(0.3))(lambda x: (asked.append(len(x)), model(x))[1], images(5), torch.zeros(5, dtype=torch.int64))
    assert asked == [5]


def test_a_target_is_approached_and_the_label_forgotten():
    model, x = linear(4), images(8)
    target = torch.arange(8) % 4
    attack = FGSM(threat=Linf(0.3), loss=margin)
    z = attack(model, x, torch.zeros(8, dtype=torch.int64), target=target)
    assert torch.equal(z, attack(model, x, torch.ones(8, dtype=torch.int64), target=target))
    assert bool((margin(model(z), target) < margin(model(x), target)).all())
