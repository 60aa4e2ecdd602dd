import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import DataError
from holdfast.losses import cross_entropy, margin
from holdfast.objectives import MMA
from holdfast.objectives.mma import Boundary, bisect, soft_margin
from holdfast.rng import Streams
from holdfast.threat import L0, L1, L2, Linf
from tests.zoo import THREAT_KINDS, half_space, half_space_distance, half_space_points, images, labels, smooth


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 2), st.floats(0.01, 1.9), st.integers(1, 12))
def test_bisection_halves_its_error_each_time(root, start, searches):
    found = bisect(lambda scale: scale - root, torch.tensor([start]).double(), 2.0, searches)
    # The first cut is at the start, which may leave nearly all; every later one halves what is left.
    assert abs(float(found) - root) <= 2.0 / 2**searches
    longer = bisect(lambda scale: scale - root, torch.tensor([start]).double(), 2.0, 50)
    assert float(longer) == pytest.approx(root, abs=1e-9)


def test_bisection_looks_at_the_start_first():
    seen = []

    def value(scale):
        seen.append(float(scale))
        return scale - 0.6

    bisect(value, torch.tensor([0.5]), 1.0, 4)
    assert seen == pytest.approx([0.5, 0.75, 0.625, 0.5625])


def test_without_a_root_it_tends_to_the_largest():
    assert float(bisect(lambda scale: scale - 9, torch.tensor([0.1]).double(), 1.0, 20)) == pytest.approx(1, abs=1e-5)
    assert float(bisect(lambda scale: scale + 1, torch.tensor([0.1]).double(), 1.0, 20)) == pytest.approx(0, abs=1e-5)


def test_the_soft_margin_is_the_margin_of_two_classes_and_above_it_of_more():
    logits = images(9, (5,)) * 4
    y = labels(9, 5)
    assert bool((soft_margin(logits, y) > margin(logits, y)).all())
    torch.testing.assert_close(soft_margin(logits[:, :2], y % 2), margin(logits[:, :2], y % 2))
    by_hand = [
        math.log(sum(math.exp(v) for k, v in enumerate(row) if k != label)) - row[label]
        for row, label in zip(logits.tolist(), y.tolist(), strict=True)
    ]
    torch.testing.assert_close(soft_margin(logits, y), torch.tensor(by_hand, dtype=torch.float64))


@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_budgets_are_the_distances_to_the_boundary_of_a_half_space(kind):
    model = half_space()
    x, y = half_space_points(model, 12)
    distance = half_space_distance(model, x, kind)
    largest = 2 * float(distance.max())
    objective = MMA(threat=THREAT_KINDS[kind](largest), steps=30, searches=16, least=1e-3 * largest)
    work = objective.hooks.start(model, 2, torch.arange(12))
    found = work.search(model, x, y, rng=Streams(0, "", 12))
    torch.testing.assert_close(found.budget, distance, rtol=5e-2, atol=2e-4 * largest)
    assert bool((found.budget >= distance - 2e-4 * largest).all())  # no direction reaches the boundary earlier
    with torch.no_grad():
        assert float(model.signed(found.points).abs().max()) < 2e-3 * float(model.signed(x).abs().max())
    torch.testing.assert_close(work.budgets, found.budget)


def test_ten_searches_are_as_exact_as_their_number():
    model = half_space()
    x, y = half_space_points(model, 12)
    distance = half_space_distance(model, x, "linf")
    threat = Linf(2 * float(distance.max()))
    found = MMA(threat=threat).hooks.start(model, 2, torch.arange(12)).search(model, x, y, rng=Streams(0, "", 12))
    assert float((found.budget - distance).abs().max()) <= 1.05 * threat.eps / 2**10


def test_mixes_the_margin_of_near_examples_with_the_clean_loss():
    model = half_space()
    x, y = half_space_points(model, 20)
    y = y.clone()
    y[:3] = 1 - y[:3]  # wrong
    eps = 1.001 * float(half_space_distance(model, x, "linf").median())
    objective = MMA(threat=Linf(eps), searches=30, least=1e-4)
    terms = objective(model, x, y)
    near = half_space_distance(model, x, "linf") < eps
    assert bool(near[3:].any())
    assert not bool(near[3:].all())
    right = model(x).argmax(1) == y
    clean = cross_entropy(model(x), y)
    at_the_boundary = math.log(2)  # both logits are zero there
    margin_loss = (clean[~right].sum() + (near & right).sum() * at_the_boundary) / 20
    torch.testing.assert_close(terms.parts["margin"], margin_loss, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(terms.parts["clean"], clean.mean())
    torch.testing.assert_close(terms.total, 2 / 3 * margin_loss + 1 / 3 * clean.mean(), rtol=1e-4, atol=1e-6)
    assert float(terms.parts["right"]) == 17 / 20


def test_without_a_clean_weight_there_is_no_clean_pass():
    model, calls = half_space(), []
    x, y = half_space_points(model, 4)
    model.register_forward_hook(lambda *_: calls.append(1))
    objective = MMA(threat=Linf(0.1), steps=2, searches=5, clean_weight=0.0)
    terms = objective(model, x, y)
    assert len(calls) == objective.passes.forward == 1 + 2 + 5 + 1
    torch.testing.assert_close(terms.total, terms.parts["margin"])


def test_budgets_belong_to_examples_in_any_batch():
    model, examples = half_space(), torch.tensor([40, 10, 30, 20])
    x, y = half_space_points(model, 4)
    threat = Linf(2 * float(half_space_distance(model, x, "linf").max()))
    work = MMA(threat=threat).hooks.start(model, 2, examples)
    for row in (2, 0, 3, 1):
        work.search(model, x[[row]], y[[row]], rng=Streams(0, "", examples[[row]]))
    expected = half_space_distance(model, x, "linf")
    by_index = dict(zip(work.examples.tolist(), work.budgets.tolist(), strict=True))
    assert [by_index[int(index)] for index in examples] == pytest.approx(expected.tolist(), abs=2e-3 * threat.eps)
    whole = MMA(threat=threat).hooks.start(model, 2, examples)
    whole.search(model, x, y, rng=Streams(0, "", examples))
    torch.testing.assert_close(whole.budgets, work.budgets)


def test_the_next_search_starts_within_the_budget_of_the_last():
    model = smooth()
    x = images(5, low=0.3, high=0.7)
    with torch.no_grad():
        y = model(x).argmax(1)
    work = MMA(threat=Linf(0.3), steps=1).hooks.start(model, 5, torch.arange(5))
    work.budgets = torch.full((5,), 0.2, dtype=torch.float64)
    far = []
    model.register_forward_pre_hook(lambda _, given: far.append(float((given[0].detach() - x).abs().max())))
    work.search(model, x, y, rng=Streams(0, "", 5))
    assert max(far[1:2]) > 0.1  # the random start


def test_an_example_that_is_wrong_loses_its_budget():
    model = half_space()
    x, y = half_space_points(model, 3)
    work = MMA(threat=Linf(1.0)).hooks.start(model, 2, torch.arange(3))
    work.search(model, x, y, rng=Streams(0, "", 3))
    assert bool((work.budgets > 0).all())
    found = work.search(model, x, torch.stack((1 - y[0], y[1], y[2])), rng=Streams(0, "", 3))
    assert float(work.budgets[0]) == 0 == float(found.budget[0])
    assert torch.equal(found.points[0], x[0])


def test_without_a_boundary_an_example_is_left_alone_after_the_fewest_searches():
    def flat(z):
        return torch.stack((torch.ones(len(z)), torch.zeros(len(z))), dim=1).double() + 0 * z.flatten(1)[:, :1]

    x = images(3)
    terms = MMA(threat=Linf(0.1), searches=5)(flat, x, torch.zeros(3, dtype=torch.int64))
    assert float(terms.parts["margin"]) == 0


def test_the_numbers_of_an_example_do_not_depend_on_who_else_is_right():
    model = smooth()
    x = images(6, low=0.3, high=0.7)
    with torch.no_grad():
        y = model(x).argmax(1)
    wrong = torch.where(torch.arange(6) < 2, (y + 1) % 5, y)
    work = [MMA(threat=Linf(0.3), steps=1).hooks.start(model, 5, torch.arange(6)) for _ in range(2)]
    for one in work:
        one.budgets = torch.full((6,), 0.2, dtype=torch.float64)
    all_right, some = (
        one.search(model, x, labels, rng=Streams(0, "", 6)) for one, labels in zip(work, (y, wrong), strict=True)
    )
    assert bool(some.right[2:].all())
    torch.testing.assert_close(all_right.points[2:], some.points[2:], rtol=0, atol=1e-12)
    assert torch.equal(some.points[:2], x[:2])


def test_statistics_of_the_batch_are_those_of_all_examples():
    """One example that is right has no variance of its own."""
    torch.manual_seed(0)
    layers = [torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 5)]
    model = torch.nn.Sequential(*layers).double().train()
    model[3].weight.data *= 50
    x = images(4)
    with torch.no_grad():
        y = model(x).argmax(1)
    wrong = torch.where(torch.arange(4) < 1, y, (y + 1) % 5)
    seen = []
    model[2].register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    terms = MMA(threat=Linf(0.1), batch_stats="mixed")(model, x, wrong)
    assert set(seen) == {4}
    assert math.isfinite(float(terms.total.detach()))
    assert float(terms.parts["right"]) == 1 / 4


def test_the_clean_pass_has_the_statistics_of_clean_images():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 5)).double().train()
    x, y = images(8), labels(8, 5)
    work = MMA(threat=Linf(0.3), batch_stats="split").hooks.start(model, 5, torch.arange(8))
    found = work.search(model, x, y, rng=Streams(0, "", 8))
    moved = Boundary(x + 3.0, found.budget, found.right)  # far from the clean images, so that a mixture would show
    before = model[1].running_mean.clone()
    work.loss(model, x, y, moved)
    expected = 0.9 * before + 0.1 * x.flatten(1).mean(0)
    torch.testing.assert_close(model[1].running_mean, expected)


def test_an_example_that_is_none_of_the_training_examples_is_refused():
    model = half_space()
    x, y = half_space_points(model, 2)
    work = MMA(threat=Linf(0.1)).hooks.start(model, 2, torch.tensor([4, 8]))
    for strange in (6, 9):
        with pytest.raises(DataError, match=f"mma: expected training examples; example {strange} is not one of them"):
            work(model, x, y, rng=Streams(0, "", [4, strange]))


@pytest.mark.parametrize("threat", [L2(0.5), L1(2.0)])
def test_every_norm_has_finite_gradients(threat):
    model, x = smooth(), images(5)
    with torch.no_grad():
        y = model(x).argmax(1)
    terms = MMA(threat=threat, least=0.05)(model, x, y)
    grads = torch.autograd.grad(terms.total, list(model.parameters()))
    assert all(bool(grad.isfinite().all()) for grad in grads)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"least": 0.2}, "least must not exceed the threat's eps of 0.1, got 0.2"),
        ({"least": 0.0}, "least must be positive, got 0.0"),
        ({"searches": 4}, "searches must be at least 5, to tell what is beyond eps; got 4"),
        ({"clean_weight": 1.0}, r"clean_weight must lie in \[0, 1\), got 1.0"),
        ({"threat": L0(3)}, "mma has no l0"),
    ],
)
def test_impossible_settings_are_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        MMA(**{"threat": Linf(0.1), **fields})
