import pytest
import torch

from holdfast.attacks import FGSM, PGD, EightBit, Square
from holdfast.attacks.eight_bit import LEVELS, apply_largest, rounded, stepped
from holdfast.threat import L1, L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import THREAT_KINDS, HalfSpace, digits, digits_cnn, images, labels, linear

BUDGETS = {"linf": 8 / 255, "l2": 0.3, "l1": 1.5}


def on_grid(z):
    return bool(((z.double() * LEVELS).round() / LEVELS - z.double()).abs().max() < 1e-6)


def eight_bit_images(count, shape=(1, 4, 4), dtype=torch.float64):
    return (images(count, shape) * LEVELS).round().div(LEVELS).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", BUDGETS)
def test_the_result_survives_a_trip_through_bytes_inside_the_threat_set(kind, dtype):
    threat, x = THREAT_KINDS[kind](BUDGETS[kind]), eight_bit_images(20, dtype=dtype)
    z = EightBit(attack=PGD(threat=threat, steps=10))(linear(5, dtype=dtype), x, labels(20, 5))
    file = (z * 255).round().to(torch.uint8)
    torch.testing.assert_close(file.to(dtype) / 255, z, rtol=0, atol=1e-7)
    assert bool((threat.distance(z, x) <= threat.eps + 1e-5).all())
    assert not torch.equal(z, x)


@pytest.mark.parametrize("kind", BUDGETS)
def test_what_the_attack_breaks_stays_broken_on_the_digits(kind):
    model, (x, y) = digits_cnn(), digits()
    x = (x * LEVELS).round()[:100] / LEVELS
    y = y[:100]
    attack = PGD(threat=THREAT_KINDS[kind]({"linf": 13 / 255, "l2": 0.4, "l1": 1.5}[kind]), steps=20)
    free = model(attack(model, x, y)).argmax(1) == y
    gridded = EightBit(attack=attack)(model, x, y)
    assert on_grid(gridded)
    held = model(gridded).argmax(1) == y
    assert 5 < int(held.sum()) < 95
    assert int((held & ~free).sum()) <= 1  # the grid saves almost nobody


def test_repairs_win_back_what_rounding_loses():
    # The attack ends just behind the boundary, and the nearest level is before it.
    model = HalfSpace(torch.tensor([1.0], dtype=torch.float64), torch.tensor(-100.4 / 255, dtype=torch.float64))
    x, y = torch.tensor([[104 / 255]], dtype=torch.float64), torch.ones(1, dtype=torch.int64)

    class JustBehind:
        threat = Linf(4 / 255)

        def __call__(self, model, x, y, *, target=None, rng=None):
            return torch.full_like(x, 100.39 / 255) + 0.3 / 255

    assert not bool(model(EightBit(attack=JustBehind(), repairs=0)(model, x, y)).argmax(1) == 0)
    z = EightBit(attack=JustBehind(), repairs=1)(model, x, y)
    assert z.item() == pytest.approx(100 / 255)
    tight = JustBehind()
    tight.threat = Linf(3.7 / 255)  # 100.3 is in the set and 100 is not: the grid saves this one, and it shows
    z = EightBit(attack=tight)(model, x, y)
    assert z.item() == pytest.approx(101 / 255)


def test_queries_are_one_look_per_repair_and_the_lost_leave():
    model, x = linear(3), eight_bit_images(6)
    y = model(x).argmax(1)
    y[0] = (y[0] + 1) % 3
    counts = torch.zeros(6, dtype=torch.int64)
    EightBit(attack=FGSM(threat=Linf(2 / 255)), repairs=4)(Counted(model, counts), x, y)
    assert counts[0] == 2
    assert set(counts.tolist()) <= {2, 3, 4, 5, 6}
    assert int(counts.max()) == 1 + 4 + 1


def test_rounding_goes_to_the_nearest_level_and_inwards_where_that_is_outside():
    x = torch.tensor([[100.0, 100.0, 100.0, 100.0]], dtype=torch.float64) / LEVELS
    z = torch.tensor([[102.6, 101.6, 97.3, 100.0]], dtype=torch.float64) / LEVELS
    assert (rounded(Linf(4 / 255), z, x) * LEVELS).round().tolist() == [[103, 102, 97, 100]]
    assert (rounded(Linf(2.7 / 255), z, x) * LEVELS).round().tolist() == [[102, 102, 98, 100]]
    # l1: 2.6 + 1.6 + 2.7 = 6.9 levels; the nearest need 8, inwards 5, and with 4 the smallest change is left out
    assert (rounded(L1(6.9 / 255), z, x) * LEVELS).round().tolist() == [[102, 101, 98, 100]]
    assert (rounded(L1(4 / 255), z, x) * LEVELS).round().tolist() == [[102, 100, 98, 100]]


def test_images_off_the_grid_are_rounded_as_far_as_they_fit():
    x = images(30, (1, 6, 6))
    threat = L1(0.3)
    z = rounded(threat, PGD(threat=threat, steps=5)(linear(3, (1, 6, 6)), x, labels(30, 3)), x)
    assert on_grid(z)
    assert bool((threat.distance(z, x) <= 0.3 + 1e-9).all())
    tiny = L1(0.012)  # room for a step or two, but not for the rounding of the image itself: it stays
    assert bool((tiny.distance((x * LEVELS).round() / LEVELS, x) > tiny.eps).all())
    assert torch.equal(rounded(tiny, x, x), x)
    attack = EightBit(attack=FGSM(threat=tiny))
    assert torch.equal(attack(linear(3, (1, 6, 6)), x, labels(30, 3)), x)


def test_steps_on_the_grid_take_the_steepest_coordinates_that_fit():
    x = torch.full((1, 4), 100 / 255, dtype=torch.float64)
    grad = torch.tensor([[1.0, -3.0, 0.0, 2.0]], dtype=torch.float64)

    def levels(threat, z=x):
        return (stepped(threat, z, x, grad) * LEVELS).round().tolist()[0]

    assert levels(Linf(1 / 255)) == [101, 99, 100, 101]
    assert levels(L1(2.5 / 255)) == [100, 99, 100, 101]
    assert levels(L2(1.2 / 255)) == [100, 99, 100, 100]
    assert levels(Linf(0.5 / 255)) == [100, 100, 100, 100]
    at_the_edge = torch.tensor([[101.0, 100.0, 100.0, 101.0]], dtype=torch.float64) / 255
    assert levels(Linf(1 / 255), at_the_edge) == [101, 99, 100, 101]
    steepest_at_the_edge = torch.tensor([[100.0, 99.0, 100.0, 100.0]], dtype=torch.float64) / 255
    assert levels(Linf(1 / 255), steepest_at_the_edge) == [101, 99, 100, 101]


def test_as_many_as_fit_is_the_largest_number():
    x = torch.zeros(40, 16, dtype=torch.float64)
    weight = images(40, (16,), seed=3)
    there = torch.full_like(x, 0.1)
    for count in (0, 1, 7, 15, 16):
        z = apply_largest(L1(0.1 * count + 0.05), x, there, weight, x)
        assert (z > 0).sum(1).tolist() == [count] * 40
        chosen = weight.argsort(1, descending=True)[:, :count]
        assert bool((z.gather(1, chosen) > 0).all())


def test_a_score_based_attack_needs_no_gradient_without_repairs():
    inner, x = linear(3), eight_bit_images(5)
    z = EightBit(attack=Square(threat=Linf(0.1), queries=20), repairs=0)(
        lambda points: inner(points.detach()).detach(), x, labels(5, 3)
    )
    assert on_grid(z)


def test_a_target_is_reached_and_the_threat_is_that_of_the_attack():
    model, x = linear(4), eight_bit_images(10)
    target = (model(x).argmax(1) + 1) % 4
    attack = EightBit(attack=PGD(threat=Linf(0.6), steps=40))
    z = attack(model, x, (target - 1) % 4, target=target)
    assert torch.equal(model(z).argmax(1), target)
    assert attack.threat == Linf(0.6)
    with pytest.raises(ValueError, match="repairs must not be negative"):
        EightBit(attack=attack.attack, repairs=-1)
