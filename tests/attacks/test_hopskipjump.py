import warnings

import pytest
import torch

import holdfast.attacks.hopskipjump as module
from holdfast.attacks import HopSkipJump
from holdfast.attacks.hopskipjump import boundary_normal, jump
from holdfast.attacks.minimal import Rows
from holdfast.attacks.search import Aim
from holdfast.losses import margin
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import (
    THREAT_KINDS,
    digits,
    digits_mlp,
    half_space,
    half_space_distance,
    half_space_points,
    images,
    linear,
    smooth,
)


def rows_of(model, x, y, target=None):
    return Rows(model, x, Aim.of(margin, y, target), Streams(0, "", len(x)), model(x).detach())


def counted(attack, model, x, y, **arguments):
    wrapped = Counted(model, torch.zeros(len(x), dtype=torch.int64))
    return attack(wrapped, x, y, **arguments), wrapped.counts.tolist()


@pytest.mark.parametrize("kind", ["linf", "l2"])
def test_comes_near_the_distance_of_a_half_space_and_never_below(kind):
    model = half_space()
    x, y = half_space_points(model, 8)
    truth = half_space_distance(model, x, kind)
    eps = 1.0 if kind == "linf" else 10.0  # so that every image may be reached
    attack = HopSkipJump(threat=THREAT_KINDS[kind](eps), steps=15, samples=100)
    found = attack.threat.distance(attack(model, x, y), x)
    assert bool((found >= truth).all())
    assert bool((found <= 1.1 * truth).all())


def test_gives_the_image_back_where_nothing_is_near_enough():
    model = half_space()
    x, y = half_space_points(model, 8)
    truth = half_space_distance(model, x, "l2")
    eps = float(truth.median())
    z = HopSkipJump(threat=L2(eps), steps=10)(model, x, y)
    untouched = (z == x).all(1)
    assert bool(untouched[truth > eps].all())
    assert bool((~untouched[truth < 0.85 * eps]).all())
    assert bool((model(z).argmax(1) != y)[~untouched].all())


def test_looks_at_the_predicted_class_alone():
    inner, x = smooth(), images(6)
    y = inner(x).argmax(1)

    def hard(z):
        return torch.nn.functional.one_hot(inner(z).argmax(1), 5).double()

    attack = HopSkipJump(threat=L2(2.0), steps=3, samples=20)
    assert torch.equal(attack(hard, x, y), attack(inner, x, y))


def test_every_query_is_counted():
    model = half_space()
    x, y = half_space_points(model, 4)
    y[0] = 1 - y[0]
    asked = []

    def listening(z):
        asked.append(len(z))
        return model(z)

    z, queries = counted(HopSkipJump(threat=L2(1.0), steps=2, samples=10), listening, x, y)
    assert sum(queries) == sum(asked)
    assert queries[0] == 1  # wrong already
    assert torch.equal(z[0], x[0])
    # clean, at least one noise image, three bisections of ten, 10 + 14 samples, at least one look per jump
    assert min(queries[1:]) >= 1 + 1 + 3 * 10 + 24 + 2


def test_the_normal_of_a_half_space_is_found():
    model = half_space()
    x, y = half_space_points(model, 4)
    m = model.signed(x).detach()[:, None]
    on_the_boundary = x - m * model.weight.detach() / model.weight.detach().square().sum()
    rows = rows_of(model, x, y)
    normal = boundary_normal(rows, on_the_boundary, torch.full((4,), 0.01).double(), 3000, Streams(0, "", 4))
    expected = model.weight.detach() * (1 - 2 * y)[:, None]
    assert bool((torch.cosine_similarity(normal, expected) > 0.97).all())


def test_the_mean_answer_is_taken_out_of_the_normal():
    # A third of a radius inside of the boundary most answers agree, and without the mean the noise would not cancel.
    model = half_space()
    x, y = half_space_points(model, 30)
    unit = model.weight.detach() / model.weight.detach().norm() * (1 - 2 * y)[:, None]
    inside = x + (half_space_distance(model, x, "l2")[:, None] + 0.0035) * unit
    rows = rows_of(model, x, y)
    normal = boundary_normal(rows, inside, torch.full((30,), 0.01).double(), 200, Streams(0, "", 30))
    assert float(torch.cosine_similarity(normal, unit).mean()) > 0.85


def test_answers_that_all_agree_point_towards_or_away():
    x = torch.full((1, 6), 0.5, dtype=torch.float64)
    noise = Streams(0, "", 1)
    mean = torch.stack([torch.nn.functional.normalize(noise.normal(x)) for _ in range(5)]).sum(0)
    for winner in (0, 1):

        def always(z, winner=winner):
            return torch.nn.functional.one_hot(torch.full((len(z),), winner), 2).double()

        rows = rows_of(always, x, torch.zeros(1, dtype=torch.int64))
        found = boundary_normal(rows, x, torch.tensor([0.1]).double(), 5, Streams(0, "", 1))
        torch.testing.assert_close(found, mean if winner else -mean)


def test_how_many_points_are_asked_at_once_changes_nothing(monkeypatch):
    model, x = smooth(), images(5)
    y, sizes = model(x).argmax(1), []
    attack = HopSkipJump(threat=L2(3.0), steps=2, samples=30)
    once = attack(model, x, y)
    monkeypatch.setattr(module, "ROWS", 40)
    again = attack(lambda z: (sizes.append(len(z)), model(z))[1], x, y)
    torch.testing.assert_close(again, once, rtol=0, atol=1e-9)
    assert max(sizes) <= 40


def test_a_jump_halves_its_step_until_it_lands_and_asks_only_those_who_have_not():
    model = half_space(1)
    sign = float(model.weight.detach().sign())
    x = torch.tensor([[0.5 - 0.2 * sign], [0.5 - 0.2 * sign]], dtype=torch.float64)
    y = model(x).argmax(1)
    counts = torch.zeros(2, dtype=torch.int64)
    rows = rows_of(Counted(model, counts), x, y)
    z = torch.full((2, 1), 0.5 + 0.1 * sign, dtype=torch.float64)
    counts.zero_()
    landed = jump(rows, z, torch.full((2, 1), -sign).double(), torch.tensor([0.3, 0.05]).double())
    torch.testing.assert_close(landed, 0.5 + sign * torch.tensor([[0.025], [0.05]]).double())
    assert counts.tolist() == [3, 1]  # 0.3 and 0.15 are too far, 0.075 lands


def test_jumps_start_at_the_distance_over_the_root_of_the_step(monkeypatch):
    model, sizes = half_space(), []
    x, y = half_space_points(model, 3)

    def listening(rows, z, direction, size):
        sizes.append(size / L2(1.0).distance(z, rows.x))
        return jump(rows, z, direction, size)

    monkeypatch.setattr(module, "jump", listening)
    HopSkipJump(threat=L2(9.0), steps=4, samples=5)(model, x, y)
    torch.testing.assert_close(torch.stack(sizes)[:, 0], torch.tensor([1, 0.5**0.5, 3**-0.5, 0.5]).double())


@pytest.mark.parametrize("classes", [3, 10])
def test_a_target_is_reached(classes):
    model, x = linear(classes), images(6)
    y = model(x).argmax(1)
    target = model(x).topk(2).indices[:, 1]
    attack = HopSkipJump(threat=L2(4.0), steps=3, samples=20, starts=300)
    z = attack(model, x, y, target=target)
    moved = (z != x).flatten(1).any(1)
    assert bool(moved.any())
    assert torch.equal(model(z).argmax(1)[moved], target[moved])


@pytest.mark.parametrize(("kind", "threat"), [("l2", L2(10.0)), ("linf", Linf(1.0))])
def test_is_as_near_as_foolbox_on_the_digits(kind, threat):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        foolbox = pytest.importorskip("foolbox")
        model, (x, y) = digits_mlp(), digits()
        right = (model(x).argmax(1) == y).nonzero()[:15, 0]
        x, y = x[right], y[right]
        z = HopSkipJump(threat=threat, steps=8, samples=50)(model, x, y)
        ours = threat.distance(z, x)
        assert bool((model(z).argmax(1) != y).all())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            attack = foolbox.attacks.HopSkipJumpAttack(steps=8, initial_gradient_eval_steps=50, constraint=kind)
            subject = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
            # one image at a time: it divides the gradient by its norm over the whole batch, and steps get too short
            pairs = zip(x.split(1), y.split(1), strict=True)
            other = torch.cat([attack(subject, image, label, epsilons=None)[1] for image, label in pairs])
    assert float(ours.median()) <= 1.1 * float(threat.distance(other, x).median())


def test_threats_and_fields_that_it_does_not_have_are_refused():
    with pytest.raises(ValueError, match="hopskipjump has no l1 attack"):
        HopSkipJump(threat=L1(1.0))
    for fields in ({"steps": 0}, {"samples": 1}, {"starts": 0}):
        with pytest.raises(ValueError, match=next(iter(fields))):
            HopSkipJump(threat=L2(1.0), **fields)
