import math

import pytest
import torch

from holdfast.corruptions.bar import sparkle
from holdfast.corruptions.bar.sparkle import inverse_sparkles, light, sparkles
from holdfast.rng import Streams
from tests.corruptions.bar.pictures import natural


def at(row, column):
    return [torch.full((3, 1, 1), share, dtype=torch.float64) for share in (row, column)]


def squared_distance(shape, centre):
    rows, columns = (torch.arange(size, dtype=torch.float64) for size in shape)
    return ((rows - centre[0])[:, None] ** 2 + (columns - centre[1]) ** 2) + 1e-4


@pytest.mark.parametrize("shape", [(32, 32), (12, 20)])
@pytest.mark.parametrize("power", [1, 0.325])
def test_light_is_that_of_the_rays_drawn(shape, power):
    x, centre = torch.zeros(3, 1, *shape), (0.3 * shape[0], 0.6 * shape[1])
    found = light(x, at(0.3, 0.6), Streams(0, "light", 3), radius=2.5, shortest=2, power=power).tolist()
    rng = Streams(0, "light", 3)
    rays = [50 + n for n in rng.integers(150, (1,))[:, 0].tolist()]
    normal = rng.normal(torch.empty(3, 199, dtype=torch.float64))
    for n, count in enumerate(rays):
        lengths = [max(2, 2.5 + 0.625 * value) for value in normal[n].tolist()[:count]]
        for row in range(shape[0]):
            for column in range(shape[1]):
                down, right = row - centre[0], column - centre[1]
                turn = (math.atan2(right, down) + math.pi) / (2 * math.pi) * count
                ray, share = int(turn) % count, turn - int(turn)
                length = (1 - share) * lengths[ray] + share * lengths[(ray + 1) % count]
                fall = (length**2 / (down**2 + right**2 + 1e-4)) ** power
                expected = min(1, (1 - (share - 0.5) ** 2) * fall)
                assert abs(found[n][row][column] - expected) < 1e-9


def test_rays_are_at_least_as_long_as_told():
    x = torch.zeros(3, 1, 32, 32)
    found = light(x, at(0.5, 0.5), Streams(0, "", 3), radius=0.01, shortest=1, power=1)
    fall = 1 / squared_distance((32, 32), (16, 16))
    assert bool((found >= (0.75 * fall).clamp(max=1) - 1e-12).all())
    assert bool((found <= fall + 1e-12).all())


def test_rays_are_between_50_and_199():
    counts = set()
    rng = Streams(0, "count", 4000)
    counts.update((50 + rng.integers(sparkle.MOST - sparkle.FEWEST + 1, (1,))).flatten().tolist())
    assert counts == set(range(50, 200))


@pytest.mark.parametrize(("shape", "count"), [((32, 32), 5), ((32, 64), 10), ((45, 30), 8), ((8, 8), 5)])
def test_five_sparkles_stand_on_each_square(monkeypatch, shape, count):
    seen = []

    def constant(x, centre, rng, *, radius, shortest, power):
        seen.append((radius, shortest, power))
        return torch.full((len(x), *x.shape[-2:]), 0.1, dtype=torch.float64)

    monkeypatch.setattr(sparkle, "light", constant)
    z = sparkles(torch.full((2, 3, *shape), 0.2, dtype=torch.float64), 5.6, Streams(0, "", 2))
    torch.testing.assert_close(z, torch.full_like(z, 1 - 0.8 * 0.9**count))
    assert seen == [(pytest.approx(0.056 * min(shape)), min(1, min(shape) / 32), 1)] * count


def test_centres_of_sparkles_lie_anywhere_and_that_of_the_inverse_in_the_middle_half(monkeypatch):
    seen = []

    def remember(x, centre, rng, **settings):
        seen.append((torch.stack(centre).flatten(), settings))
        return torch.zeros(len(x), *x.shape[-2:], dtype=torch.float64)

    monkeypatch.setattr(sparkle, "light", remember)
    sparkles(torch.zeros(300, 1, 8, 8), 3.5, Streams(0, "", 300))
    inverse_sparkles(torch.zeros(300, 1, 40, 60), 2.5, Streams(0, "", 300))
    anywhere, (middle, settings) = torch.cat([centre for centre, _ in seen[:-1]]), seen[-1]
    assert float(anywhere.min()) < 0.01
    assert float(anywhere.max()) > 0.99
    assert 0.25 <= float(middle.min()) < 0.26
    assert 0.74 < float(middle.max()) < 0.75
    assert (settings["radius"], settings["power"]) == (10, pytest.approx(0.325))


def test_white_is_mixed_in_and_white_stays_white():
    x, white = natural(6), torch.ones(6, 3, 32, 32, dtype=torch.float64)
    for function in (sparkles, inverse_sparkles):
        cover = function(torch.zeros_like(x), 4, Streams(0, "", 6))
        torch.testing.assert_close(function(x, 4, Streams(0, "", 6)), x + cover * (1 - x))
        torch.testing.assert_close(function(white, 4, Streams(0, "", 6)), white)


def test_the_inverse_shows_its_middle_and_hides_what_is_far():
    x = torch.zeros(100, 1, 64, 64, dtype=torch.float64)
    z = inverse_sparkles(x, 5, Streams(0, "", 100))
    assert float(z[..., 16:48, 16:48].mean()) < 0.5 * float(z[..., :4, :4].mean())
    # light is at least 3/4 where rays reach, and a ray of mean length reaches 16 pixels
    assert float(z.amin((1, 2, 3)).max()) <= 0.25
