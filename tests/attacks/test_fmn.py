import itertools

import pytest
import torch
import torch.nn.functional as F

from holdfast.attacks import FMN, EightBit, Targeted
from holdfast.rng import Streams
from holdfast.threat import L0, L1, L2, Linf
from holdfast.threat.shape import room
from tests.attacks.oracles import by_foolbox, distances, foolbox, subject
from tests.zoo import HalfSpace, Piecewise, digits, digits_cnn, half_space, half_space_distance, images, linear


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
    for threat in (Linf(1.0), L2(8.0), L1(60.0), L0(64)):
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


def far_half_space(size=20, shift=3.0):
    """A half-space that some points of the box need several values to reach, points, and their labels."""
    plane = half_space(size, seed=1)
    model = HalfSpace(plane.weight.detach(), plane.bias.detach() + shift)
    x = images(60, (size,), seed=2)
    return model, x, model(x).argmax(1).detach()


def fewest_values(model, x):
    """How many values it takes to cross the boundary: those that gain most when they go to a face of the box."""
    value = model.signed(x)
    downhill = -value.sign()[:, None] * model.weight
    gain = (downhill.abs() * room(x, downhill)).sort(1, descending=True).values.cumsum(1)
    return ((gain <= value.abs()[:, None]).sum(1) + 1).to(x.dtype)


@pytest.mark.parametrize(("step_size", "exact"), [(1.0, 40), (100.0, 60)])
def test_l0_finds_the_fewest_values_that_cross_a_half_space_and_never_fewer(step_size, exact):
    model, x, y = far_half_space()
    truth = fewest_values(model, x)
    assert truth.unique().tolist() == [1, 2, 3, 4, 5, 6]
    z = FMN(threat=L0(20), step_size=step_size)(model, x, y)
    assert bool((model(z).argmax(1) != y).all())
    excess = L0(1).distance(z, x) - truth
    assert bool(((excess == 0) | (excess == 1)).all())
    assert int((excess == 0).sum()) >= exact


def small_network(size=5, hidden=6, classes=3):
    """A ReLU network of few kinks with a large first class, and images of that class."""
    random = Streams(2, "few kinks", hidden)
    weight = random.normal(torch.empty(hidden, size, dtype=torch.float64))
    head = Streams(2, "head", classes).normal(torch.empty(classes, hidden, dtype=torch.float64))
    model = Piecewise(weight, -0.5 * weight.sum(1), head, torch.zeros(classes, dtype=torch.float64))
    x = images(40, (size,), seed=5)
    with torch.no_grad():
        model.offset.sub_(model(x).mean(0)).add_(torch.tensor([2.0, 0.0, 0.0]))
        x = x[model(x).argmax(1) == 0]
    return model, x, torch.zeros(len(x), dtype=torch.int64)


@torch.no_grad()
def fewest_values_of_a_network(model, x, y, most=3):
    """How many values it takes to leave the class, (N,); infinite if more than `most`.

    Where some values are free and the others fixed, the margin is convex in every region of the network, so it is
    largest at a corner: where as many kinks or faces of the box meet as there are free values.
    """
    fewest = torch.full((len(x),), torch.inf, dtype=x.dtype)
    for count in range(most, 0, -1):
        for free in map(list, itertools.combinations(range(x.shape[1]), count)):
            fixed = x.clone()
            fixed[:, free] = 0
            one = torch.eye(count, dtype=x.dtype)
            normals = torch.cat((model.weight[:, free], one, one))
            kinks = F.linear(fixed, model.weight, model.bias)
            offsets = torch.cat((kinks, x.new_zeros(len(x), count), -x.new_ones(len(x), count)), dim=1)
            for planes in map(list, itertools.combinations(range(len(normals)), count)):
                if float(torch.linalg.det(normals[planes]).abs()) > 1e-9:
                    corner = -torch.linalg.solve(normals[planes], offsets[:, planes].T).T
                    fixed[:, free] = corner.clamp(0, 1)
                    inside = ((corner > -1e-9) & (corner < 1 + 1e-9)).all(1)
                    fewest[inside & (model(fixed).argmax(1) != y)] = count
    return fewest


def test_l0_finds_the_fewest_values_of_a_piecewise_linear_network_and_never_fewer():
    model, x, y = small_network()
    exact = fewest_values_of_a_network(model, x, y)
    assert exact.unique().tolist() == [1, 2, 3]
    z = FMN(threat=L0(5), step_size=10.0)(model, x, y)
    found = distances(L0(5), model, z, x, y)
    assert bool((found >= exact).all())
    assert float((found == exact).double().mean()) > 0.65


def test_l0_radii_are_whole_numbers_that_change_by_one_at_least():
    model, x, y = far_half_space()
    row = int(fewest_values(model, x).argmax())
    radius, reached = radii(FMN(threat=L0(20), steps=40), model, x[row : row + 1], y[row : row + 1])
    best = float("inf")
    for step in range(1, 40):
        best = min(best, radius[step]) if reached[step] else best
        if reached[step]:
            assert radius[step + 1] == min(radius[step] - 1, best)
        elif best < float("inf"):
            assert radius[step + 1] == radius[step] + 1
        else:
            assert radius[step + 1] >= radius[step] + 1
    assert 0 < sum(reached) < 40


def test_l0_agrees_with_foolbox_or_changes_fewer():
    model, x, y = subject()
    ours = distances(L0(64), model, FMN(threat=L0(64))(model, x, y), x, y)
    longer = distances(L0(64), model, FMN(threat=L0(64), step_size=30.0)(model, x, y), x, y)
    theirs = distances(L0(64), model, by_foolbox(foolbox.attacks.L0FMNAttack(), model, x, y), x, y)
    assert float(ours.median()) <= float(theirs.median())
    assert float(longer.mean()) < float(ours.mean()) < float(theirs.mean())
    assert int((ours == theirs).sum()) >= 42
    assert int((ours > theirs).sum()) <= 6


def test_attacks_around_it_keep_to_the_count():
    x, y = digits()
    x, y, model = (x[:30] * 255).round() / 255, y[:30], digits_cnn()
    inner = FMN(threat=L0(6), steps=30)
    z = EightBit(attack=inner, repairs=3)(model, x, y)
    assert torch.equal((z * 255).round() / 255, z)
    assert bool((L0(6).distance(z, x) <= 6).all())
    assert int((model(z).argmax(1) != y).sum()) > 20
    model, x = linear(3), images(20)
    y = model(x).argmax(1)
    z = Targeted(attack=FMN(threat=L0(16)), at="next")(model, x, y)
    assert torch.equal(model(z).argmax(1), (y + 1) % 3)
