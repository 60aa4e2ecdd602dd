import dataclasses

import pytest
import torch

from holdfast.attacks import FAB
from holdfast.attacks.fab import final_search
from holdfast.attacks.minimal import Rows
from holdfast.attacks.search import Aim
from holdfast.losses import margin
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import HalfSpace, half_space, images, linear, piecewise, piecewise_distance, smooth

BIG = {"linf": Linf(1.0), "l2": L2(8.0), "l1": L1(60.0)}


def one_dimension():
    """Class 1 where x > .5."""
    return HalfSpace(torch.tensor([1.0], dtype=torch.float64), torch.tensor(-0.5, dtype=torch.float64))


def visits(attack, model, x, y):
    """The points at which the model is asked, after the clean image."""
    asked = []
    attack(lambda z: (asked.append(z.detach().clone()), model(z))[1], x, y)
    return asked[1:]


def test_the_first_steps_by_hand():
    x, y = torch.tensor([[0.9]], dtype=torch.float64), torch.ones(1, dtype=torch.int64)
    asked = visits(FAB(threat=Linf(1.0), steps=2), one_dimension(), x, y)
    # The boundary is .4 away: .9 - 1.05 * .4 = .48, a success. The next step starts at .9 - .9 * .42 = .522, .022 from
    # the boundary and .4 from it seen from x: alpha = .022 / .422, and .522 - 1.05 * .022 = .4989.
    alpha = 0.022 / 0.422
    second = (1 - alpha) * 0.4989 + alpha * 0.48
    assert [float(z) for z in asked[:4]] == pytest.approx([0.9, 0.48, 0.522, second])


def test_the_pull_to_the_image_is_bounded_by_alpha_max():
    # Far beyond the boundary, where the step is as long as that from x, alpha would be one half.
    attack = FAB(threat=Linf(1.0))
    x, z = torch.tensor([[0.9]], dtype=torch.float64), torch.tensor([[0.1]], dtype=torch.float64)
    step = attack._step(attack.threat, x, z, z[:, 0] - 0.5, torch.ones_like(z))
    assert float(step) == pytest.approx(0.9 * (0.1 + 1.05 * 0.4) + 0.1 * (0.9 - 1.05 * 0.4))


def aimed(model, x, y):
    with torch.no_grad():
        return Rows(model, x, Aim.of(margin, y, None), Streams(0, "", len(x)), model(x))


def test_the_final_search_comes_to_the_boundary_and_stays_a_success():
    model, x = half_space(), images(10, (12,))
    y = model(x).argmax(1)
    z = 1 - x  # the mirror image is on the other side
    found = final_search(aimed(model, x, y), z)
    assert bool((model(found).argmax(1) != y).all())
    # Three times 99 % of the way that is left.
    torch.testing.assert_close(model.signed(found), 1e-6 * model.signed(z), rtol=1e-3, atol=0)


def test_the_final_search_keeps_its_point_where_the_segment_is_not_linear():
    def model(z):  # class 1 only beyond .9, with a margin that misleads interpolation
        rise = torch.where(z[:, 0] > 0.9, 1.0, -1e-3)
        return torch.stack((-rise, rise), dim=1)

    x, z = torch.zeros(1, 1, dtype=torch.float64), torch.full((1, 1), 0.95, dtype=torch.float64)
    assert float(final_search(aimed(model, x, torch.zeros(1, dtype=torch.int64)), z)) == 0.95


@pytest.mark.parametrize("kind", BIG)
def test_restarts_find_nearer_points_and_never_farther_ones(kind):
    model, x = piecewise(seed=0), images(60, (2,), seed=9)
    y = model(x).argmax(1).detach()
    exact = piecewise_distance(model, x, y, kind)
    once = FAB(threat=BIG[kind], steps=20)
    first, more = (
        BIG[kind].distance(dataclasses.replace(once, restarts=r)(model, x, y, rng=Streams(1, "", 60)), x)
        for r in (1, 6)
    )
    assert bool((more <= first).all())
    assert int((more < 0.9 * first).sum()) >= 3
    assert float((more / exact).quantile(0.8)) < 1.1


def test_restarts_begin_within_half_the_distance_found_or_half_of_eps():
    model = half_space()
    x = images(8, (12,), low=0.4, high=0.6)
    y = model(x).argmax(1)
    for eps in (1.0, 0.01):
        threat = Linf(eps)
        asked = visits(FAB(threat=threat, steps=1, restarts=2), model, x, y)
        # A gradient and a look, then both ends of the final search and three points between, then the second run.
        found, start = threat.distance(asked[6], x), threat.distance(asked[7], x)
        assert bool((model(asked[6]).argmax(1) != y).all())
        assert bool((start <= found.clamp(max=eps) / 2).all())
        assert bool((start > 0.25 * found.clamp(max=eps) / 2).all())


def test_targets_are_tried_side_by_side_and_the_nearest_success_wins():
    # Class 2 is likelier at x, class 1 is nearer (its slope is larger).
    weight = torch.tensor([[0.0, 0.0], [8.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    bias = torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64)
    x, y = torch.full((2, 2), 0.1, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)

    def model(z):
        return z @ weight.T + bias

    one, both = (FAB(threat=Linf(1.0), steps=10, targets=count)(model, x, y) for count in (1, 9))
    assert model(one).argmax(1).tolist() == [2, 2]
    torch.testing.assert_close(
        Linf(1.0).distance(one, x), torch.full((2,), 0.4, dtype=torch.float64), rtol=1e-5, atol=0
    )
    assert model(both).argmax(1).tolist() == [1, 1]
    torch.testing.assert_close(
        Linf(1.0).distance(both, x), torch.full((2,), 0.15, dtype=torch.float64), rtol=1e-5, atol=0
    )


def test_queries_are_counted_for_the_example_that_each_row_belongs_to():
    model, x = linear(4), images(5)
    y = model(x).argmax(1)
    y[1] = (y[1] + 1) % 4  # wrong already
    counted = Counted(model, torch.zeros(5, dtype=torch.int64))
    FAB(threat=Linf(1.0), steps=4, targets=2)(counted, x, y)
    # The clean image; per target two queries a step, a gradient and a look, then both ends and three points between.
    rest = 1 + 2 * (2 * 4 + 5)
    assert counted.counts.tolist() == [rest, 1, rest, rest, rest]


@pytest.mark.parametrize("targets", [None, 3])
def test_leaving_at_the_first_success_changes_no_verdict_and_saves_queries(targets):
    model, x = smooth(), images(40)
    y = model(x).argmax(1)
    patient = FAB(threat=Linf(0.08), steps=20, targets=targets)
    hasty = dataclasses.replace(patient, until_lost=True)
    results, queries = [], []
    for attack in (patient, hasty):
        counted = Counted(model, torch.zeros(40, dtype=torch.int64))
        z = attack(counted, x, y)
        results.append(model(z).argmax(1) == y)
        queries.append(counted.counts)
    assert torch.equal(*results)
    assert 5 < int(results[0].sum()) < 35
    assert bool((queries[1] <= queries[0]).all())
    lost = ~results[1]
    assert float(queries[1][lost].double().mean()) < 0.3 * float(queries[0][lost].double().mean())


def test_agrees_with_torchattacks_and_comes_nearer():
    from tests.attacks.oracles import distances, subject, torchattacks

    model, x, y = subject(40)
    for threat, norm in ((Linf(1.0), "Linf"), (L2(8.0), "L2")):
        ours = distances(threat, model, FAB(threat=threat, steps=20)(model, x, y), x, y)
        theirs = torchattacks.FAB(model, norm=norm, eps=threat.eps, steps=20, n_classes=10)
        theirs = distances(threat, model, theirs(x, y), x, y)
        assert float(ours.median()) == pytest.approx(float(theirs.median()), rel=0.02)
        assert float(ours.mean()) <= 1.005 * float(theirs.mean())
