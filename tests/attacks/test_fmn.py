import pytest

from holdfast.attacks import FMN
from holdfast.threat import L1, L2, Linf
from tests.attacks.oracles import by_foolbox, distances, foolbox, subject
from tests.zoo import half_space, half_space_distance, images


def radii(attack, model, x, y):
    asked = []
    attack(lambda z: (asked.append(z.detach().clone()), model(z))[1], x, y)
    return [float(attack.threat.distance(z, x)) for z in asked[1:]], [bool(model(z).argmax(1) != y) for z in asked[1:]]


def test_the_radius_follows_the_boundary():
    model = half_space()
    x = images(1, (12,), low=0.45, high=0.55)
    y = model(x).argmax(1)
    attack = FMN(threat=L2(2.0), steps=10, gamma=0.1, last_gamma=0.1)
    radius, reached = radii(attack, model, x, y)
    exact = float(half_space_distance(model, x, "l2"))
    assert radius[1] == pytest.approx(1.1 * exact)  # the estimate at x, a tenth beyond
    assert reached[:3] == [False, True, False]
    assert radius[2] == pytest.approx(0.9 * radius[1])
    assert radius[3] == pytest.approx(1.1 * radius[2])


def test_a_success_never_lets_the_radius_exceed_the_best_one():
    model, x = half_space(), images(1, (12,), low=0.45, high=0.55)
    y = model(x).argmax(1)
    radius, reached = radii(FMN(threat=L1(9.0), steps=40), model, x, y)
    best = float("inf")
    for step in range(1, 40):
        if reached[step]:
            best = min(best, radius[step])
            assert radius[step + 1] <= best + 1e-12


def test_the_box_does_not_stop_the_way_to_the_boundary():
    # Half of the coordinates that matter are at a face of the box: each step is cut to a part of its length.
    model, x, y = subject(40)
    for threat in (Linf(1.0), L2(8.0), L1(60.0)):
        assert bool(distances(threat, model, FMN(threat=threat)(model, x, y), x, y).isfinite().all())


@pytest.mark.parametrize(
    ("threat", "oracle"),
    [
        (Linf(1.0), foolbox.attacks.LInfFMNAttack),
        (L2(8.0), foolbox.attacks.L2FMNAttack),
        (L1(60.0), foolbox.attacks.L1FMNAttack),
    ],
    ids=str,
)
def test_agrees_with_foolbox_or_comes_nearer(threat, oracle):
    model, x, y = subject()
    ours = distances(threat, model, FMN(threat=threat)(model, x, y), x, y)
    theirs = distances(threat, model, by_foolbox(oracle(), model, x, y), x, y)
    assert float(ours.median()) <= 1.01 * float(theirs.median())
    if isinstance(threat, Linf):  # in the other norms theirs stays short of the boundary for many examples
        assert int(((ours / theirs - 1).abs() < 0.01).sum()) >= 54
