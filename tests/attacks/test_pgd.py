import dataclasses

import pytest
import torch

from holdfast.attacks import FGSM, PGD
from holdfast.attacks.pgd import climb
from holdfast.attacks.schedule import constant, cosine, halving, linear
from holdfast.attacks.search import Aim, Front
from holdfast.families import STEP_SCHEDULES
from holdfast.losses import cross_entropy, margin
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import (
    THREAT_KINDS,
    HalfSpace,
    Masked,
    digits,
    digits_cnn,
    half_space,
    half_space_distance,
    half_space_points,
    images,
    labels,
    smooth,
)
from tests.zoo import linear as linear_model

BUDGETS = {"linf": 0.02, "l2": 0.05, "l1": 0.08}


def standing(model, z, y):
    with torch.no_grad():
        return model(z).argmax(1) == y


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_succeeds_exactly_when_the_budget_exceeds_the_true_distance(kind, random_start):
    model = half_space()
    x, y = half_space_points(model, 12)
    truth = half_space_distance(model, x, kind)
    for i, distance in enumerate(truth.tolist()):
        for factor in (0.5, 0.99, 1.01, 2.0):
            eps = factor * distance
            attack = PGD(threat=THREAT_KINDS[kind](eps), steps=60, step_size=eps / 5, random_start=random_start)
            z = attack(model, x[i : i + 1], y[i : i + 1])
            assert bool(standing(model, z, y[i : i + 1])) == (factor < 1)


@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_climbs_to_the_optimal_margin_of_a_half_space(kind):
    model, eps = half_space(), BUDGETS[kind]
    x, y = half_space_points(model)
    attack = PGD(threat=THREAT_KINDS[kind](eps), steps=200, step_size=eps / 4, loss=margin, until_lost=False)
    with torch.no_grad():
        found = margin(model(attack(model, x, y)), y)
    slope = 2 * attack.threat.dual(model.weight.detach()[None])
    torch.testing.assert_close(
        found, (margin(model(x), y) + eps * slope).detach(), rtol=0, atol=2e-3 * eps * slope.item()
    )


@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_is_as_good_as_the_exact_optimum_of_a_linear_model_where_the_box_cuts_the_ball(kind):
    model, eps = half_space(8), {"linf": 0.3, "l2": 0.5, "l1": 1.0}[kind]
    threat = THREAT_KINDS[kind](eps)
    x = images(30, (8,), seed=4)
    y = model(x).argmax(1)
    best = margin(model(FGSM(threat=threat, loss=margin)(model, x, y)), y)
    z = PGD(threat=threat, steps=300, step_size=eps / 20, loss=margin, until_lost=False)(model, x, y)
    found = margin(model(z), y)
    assert bool((found <= best + 1e-12).all())
    # The cheap projection of L1 and L2 goes to the ball first and to the box second, so it may stop a little short.
    missed = ((best - found) / (best - margin(model(x), y))).detach()
    assert float(missed.mean()) < {"linf": 1e-9, "l2": 0.01, "l1": 0.02}[kind]
    assert float(missed.max()) < {"linf": 1e-9, "l2": 0.05, "l1": 0.3}[kind]


def rises_then_falls(x):
    """Two classes; the loss at label 0 is highest where the first coordinate is 0.6."""
    peak = -((x.flatten(1)[:, 0] - 0.6) ** 2)
    return torch.stack((torch.zeros_like(peak), peak - 1), dim=1)


def test_keeps_the_best_iterate_and_not_the_last():
    x, y = torch.full((1, 1), 0.5, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    attack = PGD(threat=Linf(0.4), steps=4, step_size=0.11, loss=margin, random_start=False)
    # 0.5, 0.61, 0.50, 0.61, 0.50: the last iterate is as bad as the first.
    assert attack(rises_then_falls, x, y).item() == pytest.approx(0.61)
    visited = []
    attack(lambda z: (visited.append(z.item()), rises_then_falls(z))[1], x, y)
    assert visited == pytest.approx([0.5, 0.61, 0.50, 0.61, 0.50])


def test_looks_at_the_last_iterate_too():
    x, y = torch.full((1, 1), 0.5, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    attack = PGD(threat=Linf(0.4), steps=1, step_size=0.05, loss=margin, random_start=False)
    assert attack(rises_then_falls, x, y).item() == pytest.approx(0.55)


def test_restarts_keep_the_best_of_each_example():
    model, x, y = smooth(), images(40), labels(40, 5)
    once = PGD(threat=L2(0.5), steps=1, step_size=0.01, until_lost=False)
    many = dataclasses.replace(once, restarts=6)
    losses = []
    for count in (1, 2, 6):
        z = dataclasses.replace(once, restarts=count)(model, x, y, rng=Streams(0, "", 40))
        losses.append(cross_entropy(model(z), y).detach())
    assert bool((losses[0] <= losses[1]).all())
    assert bool((losses[1] <= losses[2]).all())
    # Different restarts win for different examples: keeping the last or one for the batch would not do.
    singles = []
    for restart in range(6):
        front = Front(model, x, Aim.of(once.loss, y, None), Streams(0, "", 40), leave=False)
        climb(front, once.threat, once.threat.sample(front.x, front.rng.split(f"restart {restart}")), once.lengths)
        singles.append(cross_entropy(model(front.best_points), y).detach())
    best = torch.stack(singles).max(0)
    assert len(best.indices.unique()) > 2
    torch.testing.assert_close(losses[2], best.values)
    assert many.restarts == 6


def test_starts_are_different_for_every_restart_and_example():
    seen = []
    model, x = linear_model(2, (4,)), torch.full((3, 4), 0.5, dtype=torch.float64)
    attack = PGD(threat=Linf(0.1), steps=1, restarts=3, until_lost=False)
    attack(lambda z: (seen.append(z.detach().clone()), model(z))[1], x, torch.zeros(3, dtype=torch.int64))
    starts = torch.cat(seen[::2])
    assert len(starts.unique(dim=0)) == 9


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 2, 5), (7,)])
@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.5), L1(1.0)], ids=str)
def test_random_starts_work_for_batches_that_are_not_square(threat, shape):
    # A known slip of other libraries: noise drawn or scaled along the wrong axis works when N equals another size.
    x = torch.full((6, *shape), 0.5, dtype=torch.float64)
    moved = threat.distance(threat.sample(x, Streams(0, "", 6)), x)
    assert len(moved.unique()) == 6
    assert bool((moved > 0).all())
    assert bool((moved <= threat.eps + 1e-12).all())


def easy_and_hard():
    """A half-space, a point that is wrong already, one that falls at the first step, and one out of reach."""
    model = HalfSpace(torch.tensor([1.0], dtype=torch.float64), torch.tensor(-0.5, dtype=torch.float64))
    return model, torch.tensor([[0.45], [0.55], [0.9]], dtype=torch.float64), torch.ones(3, dtype=torch.int64)


def counted(attack, model, x, y, **arguments):
    wrapped = Counted(model, torch.zeros(len(x), dtype=torch.int64))
    return attack(wrapped, x, y, **arguments), wrapped.counts.tolist()


def test_lost_examples_leave_the_batch_and_cost_nothing_more():
    model, x, y = easy_and_hard()
    attack = PGD(threat=Linf(0.1), steps=10, step_size=0.06, random_start=False)
    z, queries = counted(attack, model, x, y)
    # wrong at the first look; wrong at the second; 10 gradients and the last look
    assert queries == [1, 2, 11]
    assert standing(model, z, y).tolist() == [False, False, True]
    assert z[0].item() == 0.45  # a point already lost is not moved
    assert z[1].item() == pytest.approx(0.49)
    assert z[2].item() == pytest.approx(0.8)


def test_rows_given_to_the_model_shrink_with_the_batch():
    model, x, y = easy_and_hard()
    sizes = []
    PGD(threat=Linf(0.1), steps=3, step_size=0.06, random_start=False)(
        lambda z: (sizes.append(len(z)), model(z))[1], x, y
    )
    assert sizes == [3, 2, 1, 1]


def test_a_random_start_looks_at_the_clean_image_first():
    model, x, y = easy_and_hard()
    _, queries = counted(PGD(threat=Linf(0.01), steps=4, restarts=2), model, x, y)
    assert queries == [1, 1 + 2 * 5, 1 + 2 * 5]


def test_for_training_everybody_stays():
    model, x, y = easy_and_hard()
    attack = PGD(threat=Linf(0.1), steps=4, step_size=0.06, random_start=False, until_lost=False)
    z, queries = counted(attack, model, x, y)
    assert queries == [5, 5, 5]
    torch.testing.assert_close(z.squeeze(1), torch.tensor([0.35, 0.45, 0.8], dtype=torch.float64))


def test_leaving_early_changes_no_verdict():
    x, y = digits()
    model, attack = digits_cnn(), PGD(threat=Linf(0.08), steps=10)
    early = standing(model, attack(model, x, y), y)
    late = standing(model, dataclasses.replace(attack, until_lost=False)(model, x, y), y)
    # An example may be lost on the way without being lost at the point of highest loss, not the other way round.
    assert bool((early <= late).all())
    assert int((early != late).sum()) <= 5
    assert 50 < int(early.sum()) < 450


def test_a_targeted_attack_ends_in_the_target_class_and_stops_there():
    model, x = linear_model(4), images(20)
    target = (model(x).argmax(1) + 1) % 4
    z, queries = counted(PGD(threat=Linf(0.5), steps=50), model, x, (target - 1) % 4, target=target)
    assert torch.equal(model(z).argmax(1), target)
    assert max(queries) < 52


def test_an_example_in_its_target_class_is_left_where_it_is():
    model, x = linear_model(4), images(6)
    y = model(x).argmax(1)
    z, queries = counted(PGD(threat=Linf(0.2), steps=5), model, x, y, target=y)
    assert torch.equal(z, x)
    assert queries == [1] * 6


def test_a_wrong_class_that_is_not_the_target_is_no_success():
    model = linear_model(3)
    x = images(30)
    y = model(x).argmax(1)
    worst = model(x).argmin(1)
    attack = PGD(threat=Linf(0.02), steps=5)
    z, queries = counted(attack, model, x, (y + 1) % 3, target=worst)  # every example is "wrong" at the start
    reached = model(z).argmax(1) == worst
    assert [count == 7 for count in queries] == (~reached).tolist()


def test_the_default_step_covers_two_and_a_half_radii():
    visited = []
    model, x = half_space(1), torch.full((1, 1), 0.5, dtype=torch.float64)
    attack = PGD(threat=Linf(0.2), steps=10, random_start=False, until_lost=False)
    attack(lambda z: (visited.append(z.item()), model(z))[1], x, torch.zeros(1, dtype=torch.int64))
    assert abs(visited[1] - visited[0]) == pytest.approx(2.5 * 0.2 / 10)


def path(attack):
    """The points that a run in one dimension asks about."""
    visited = []
    model, x = half_space(1), torch.full((1, 1), 0.5, dtype=torch.float64)
    attack(lambda z: (visited.append(z.item()), model(z))[1], x, torch.zeros(1, dtype=torch.int64))
    return visited


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (constant, [1, 1, 1, 1, 1, 1, 1, 1]),
        (linear, [1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]),
        (cosine, [1, 0.9619398, 0.8535534, 0.6913417, 0.5, 0.3086583, 0.1464466, 0.0380602]),  # cos^2(k pi / 16)
        (halving, [1, 1, 1 / 2, 1 / 2, 1 / 4, 1 / 4, 1 / 8, 1 / 8]),
    ],
    ids=list(STEP_SCHEDULES),
)
def test_steps_follow_the_schedule_and_together_cover_two_and_a_half_radii(schedule, factors):
    given = PGD(threat=Linf(0.4), steps=8, step_size=0.01, random_start=False, until_lost=False, schedule=schedule)
    steps = torch.tensor(path(given)).double().diff().abs()
    torch.testing.assert_close(steps, 0.01 * torch.tensor(factors).double(), rtol=1e-4, atol=1e-6)
    far = dataclasses.replace(given, threat=Linf(0.1), step_size=None)
    assert abs(path(far)[1] - path(far)[0]) == pytest.approx(2.5 * 0.1 / sum(factors), rel=1e-5)


def test_a_constant_schedule_is_the_attack_without_one_to_the_bit():
    model, x, y = smooth(), images(12), labels(12, 5)
    for threat in (Linf(0.1), L2(0.5), L1(1.0)):
        step = 2.5 * threat.eps / 7
        rng = Streams(0, "", 12)
        z = threat.sample(x, rng.split("restart 0"))
        best, value = x.clone(), x.new_full((12,), -torch.inf)
        for _ in range(7):
            leaf = z.clone().requires_grad_()
            losses = cross_entropy(model(leaf), y)
            (grad,) = torch.autograd.grad(losses.sum(), leaf)
            better = losses.detach() > value
            best[better], value[better] = z[better], losses.detach()[better]
            z = threat.project(z + step * threat.ascent(grad, z), x)
        better = cross_entropy(model(z), y).detach() > value
        best[better] = z[better]
        assert torch.equal(PGD(threat=threat, steps=7, until_lost=False)(model, x, y, rng=rng), best)


def test_a_falling_step_settles_where_a_constant_one_overshoots():
    # The loss is highest at 0.6: steps of 0.07 jump about it, falling ones end there.
    x, y = torch.full((1, 1), 0.5, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    missed = {}
    for name, schedule in STEP_SCHEDULES.items():
        attack = PGD(threat=Linf(0.4), steps=32, step_size=0.07, loss=margin, random_start=False, schedule=schedule)
        missed[name] = abs(attack(rises_then_falls, x, y).item() - 0.6)
    assert missed["constant"] == pytest.approx(0.03)  # 0.57, 0.64, 0.57, ...
    assert missed["halving"] == pytest.approx(0.03 - 0.035 + 0.0175 - 0.00875, abs=0.009)
    assert missed["linear"] < 0.004
    assert missed["cosine"] < 0.004


def test_a_masked_gradient_moves_only_the_random_start():
    model, x = Masked(linear_model(3)), images(10)
    y = model(x).argmax(1)
    still = PGD(threat=Linf(0.05), steps=5, random_start=False)(model, x, y)
    assert torch.equal(still, x)
    moved = PGD(threat=Linf(0.05), steps=5, restarts=8)(model, x, y)
    assert not torch.equal(moved, x)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "steps and restarts must be at least 1"),
        ({"restarts": 0}, "steps and restarts must be at least 1"),
        ({"step_size": 0.0}, "step_size must be positive"),
        ({"step_size": float("nan")}, "step_size must be positive"),
        ({"restarts": 2, "random_start": False}, "2 restarts from the same point are one"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        PGD(threat=Linf(0.1), **fields)


def test_streams_of_another_batch_are_refused():
    with pytest.raises(ValueError, match="2 random streams for a batch of 3 examples"):
        PGD(threat=Linf(0.1))(linear_model(3), images(3), labels(3, 3), rng=Streams(0, "", 2))
