import math

import pytest
import torch

from holdfast.corruptions.bar.distortion import cell, pinch_and_twirl, pinched_and_twirled, ripple
from holdfast.rng import Streams
from tests import chance
from tests.corruptions.bar.pictures import natural, numbers, ramps


def shown(z):
    """Row and column that each pixel shows, from the ramps; only where nothing black from outside is mixed in."""
    height, width = z.shape[-2:]
    return (height - 1) * z[:, 0], (width - 1) * z[:, 1]


def moved(row, column, *, amount, twirl, radius=4.0):
    place = torch.tensor(row, dtype=torch.float64), torch.tensor(column, dtype=torch.float64)
    new = pinched_and_twirled(*place, radius=radius, amount=amount, twirl=torch.tensor(twirl, dtype=torch.float64))
    return [float(value) for value in new]


def test_middle_rim_and_outside_of_a_disc_stay():
    assert moved(0, 0, amount=0.5, twirl=1.5) == [0, 0]
    assert moved(4, 0, amount=0.5, twirl=1.5) == pytest.approx([4, 0])
    assert moved(-3, 4, amount=0.5, twirl=1.5) == pytest.approx([-3, 4])


def test_without_amount_and_twirl_nothing_moves():
    assert moved(1.3, -0.7, amount=0, twirl=0) == pytest.approx([1.3, -0.7])


def test_a_pinch_moves_along_the_radius():
    # half way: sin(pi/4)^-0.4 = 2^0.2
    assert moved(1.2, 1.6, amount=0.4, twirl=0) == pytest.approx([1.2 * 2**0.2, 1.6 * 2**0.2])


def test_a_twirl_turns_most_in_the_middle():
    # half way: a quarter of the angle
    turn = math.pi / 8
    assert moved(2, 0, amount=0, twirl=math.pi / 2) == pytest.approx([2 * math.cos(turn), 2 * math.sin(turn)])
    assert moved(0, 2, amount=0, twirl=math.pi / 2) == pytest.approx([-2 * math.sin(turn), 2 * math.cos(turn)])


@pytest.mark.parametrize(("shape", "size", "counts"), [((32, 32), 10, (3, 3)), ((48, 80), 15, (3, 5))])
def test_discs_on_a_grid_show_the_places_of_the_formula(shape, size, counts):
    level, radius = 6.5, size / 2
    z = pinch_and_twirl(ramps(2, *shape), level, Streams(0, "", 2))
    rows, columns = (place.tolist() for place in shown(z))
    signs = {}
    for n in range(2):
        for row in range(shape[0]):
            for column in range(shape[1]):
                at = rows[n][row][column], columns[n][row][column]
                disc = row // size, column // size
                middle = (disc[0] + 0.5) * size, (disc[1] + 0.5) * size
                down, right = row - middle[0], column - middle[1]
                share = math.hypot(down, right) / radius
                if disc[0] >= counts[0] or disc[1] >= counts[1] or share >= 1 or share == 0:
                    assert math.dist(at, (row, column)) < 1e-9
                    continue
                there = at[0] - middle[0], at[1] - middle[1]
                pinch = math.sin(math.pi / 2 * share) ** -(0.1 + 0.04 * level)
                assert abs(math.hypot(*there) - share * radius * pinch) < 1e-9
                turn = math.atan2(there[1], there[0]) - math.atan2(right, down)
                turn = math.remainder(turn, 2 * math.pi) / (math.pi / 2 * level / 10 * (1 - share) ** 2)
                assert abs(abs(turn) - 1) < 1e-6
                signs.setdefault((n, *disc), set()).add(round(turn))
    assert all(len(found) == 1 for found in signs.values()), "a disc turns as a whole"
    assert len(signs) == 2 * counts[0] * counts[1]
    assert {sign for found in signs.values() for sign in found} == {-1, 1}


def test_signs_are_drawn_for_every_disc():
    z = pinch_and_twirl(ramps(400, 32, 32), 10, Streams(0, "", 400))
    rows, _ = shown(z)
    # to the right of each disc's middle: turned down or up
    signs = torch.stack([(rows[:, r, 7:32:10] > r).long() for r in (5, 15, 25)], dim=1).flatten(1)
    assert float((signs.double().mean(0) - 0.5).abs().max()) < chance.share_error(400, 0.5, count=9)
    assert len(signs.unique(dim=0)) > 200  # of 512 combinations, which 400 images have 278 of on average


def test_discs_grow_with_the_image():
    assert [cell(length) for length in (8, 28, 32, 64, 224, 448)] == [2.5, 8.75, 10, 20, 44, 88]


def test_a_ripple_without_amplitude_is_none():
    x = natural(3, (3, 24, 40))
    torch.testing.assert_close(ripple(x, 0, Streams(0, "", 3)), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(32, 32), (24, 40), (8, 8)])
def test_a_ripple_swings_rows_and_columns_by_the_numbers_drawn(shape):
    level, count = 8.0, 5
    z = ripple(ramps(count, *shape), level, Streams(0, "ripple", count))
    rng = Streams(0, "ripple", count)
    waves, phases = (0.1 + 0.2 * numbers(rng, 2)) * min(shape), 2 * math.pi * numbers(rng, 2)
    inside = z[:, 2] > 1 - 1e-9  # white everywhere, so less than white is mixed with what lies outside
    assert float(inside.double().mean()) > 0.6
    for axis, (found, length) in enumerate(zip(shown(z), shape, strict=True)):
        place = torch.arange(length, dtype=torch.float64)
        swing = torch.sin(2 * math.pi * place / waves[:, axis, None] + phases[:, axis, None])
        expected = place + 0.0025 * level * min(shape) * swing
        expected = expected[:, :, None] if axis == 0 else expected[:, None, :]
        assert float((found - expected).abs()[inside].max()) < 1e-9


def test_what_a_ripple_brings_from_outside_is_black():
    z = ripple(torch.ones(200, 1, 32, 32, dtype=torch.float64), 8, Streams(0, "", 200))
    # a corner sees 0.64 pixels beyond the edge at most
    assert float(z.min()) >= (1 - 0.64) ** 2 - 1e-9
    assert float(z.min()) < 0.2
    torch.testing.assert_close(z[..., 1:-1, 1:-1], torch.ones_like(z[..., 1:-1, 1:-1]))
