import math

import numpy as np
import pytest
import torch

from holdfast.corruptions.bar.obscuring import GREY, checkerboard_cutout, distance, lines, most_squares
from holdfast.rng import Streams
from tests import chance
from tests.corruptions.bar.pictures import natural, numbers

SHAPES = [(32, 32), (8, 8), (24, 40)]


def squares(shape, turn, size):
    """Row and column of the board's square under each pixel, pixel by pixel."""
    places = {}
    for row in range(shape[0]):
        for column in range(shape[1]):
            across = (math.cos(turn) * row + math.sin(turn) * column) / size
            along = (math.cos(turn) * column - math.sin(turn) * row) / size
            places[row, column] = math.floor(across), math.floor(along)
    return places


def boards(shape, count):
    """The board of each image, from the numbers drawn for it."""
    rng = Streams(0, "board", count)
    turns, sizes = numbers(rng, 1)[:, 0], numbers(rng, 1)[:, 0]
    for turn, size in zip(turns.tolist(), sizes.tolist(), strict=True):
        yield squares(shape, 2 * math.pi * turn, max(1, (0.1 + 0.15 * size) * min(shape)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_at_the_highest_level_all_black_squares_are_grey(shape):
    x = torch.zeros(6, 1, *shape, dtype=torch.float64)
    z = checkerboard_cutout(x, 10, Streams(0, "board", 6))
    for image, board in zip(z[:, 0].tolist(), boards(shape, 6), strict=True):
        for (row, column), (across, along) in board.items():
            assert image[row][column] == (GREY if (across + along) % 2 == 0 else 0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_square_is_grey_as_a_whole_and_by_its_own_chance(shape):
    x = torch.zeros(30, 1, *shape, dtype=torch.float64)
    z = checkerboard_cutout(x, 3, Streams(0, "board", 30))
    grey = []
    for image, board in zip(z[:, 0].tolist(), boards(shape, 30), strict=True):
        found = {}
        for (row, column), square in board.items():
            found.setdefault(square, set()).add(image[row][column])
        assert all(len(values) == 1 for values in found.values())
        grey += [values == {GREY} for (across, along), values in found.items() if (across + along) % 2 == 0]
    assert sum(grey) / len(grey) == pytest.approx(0.3, abs=chance.share_error(len(grey), 0.3))


@pytest.mark.parametrize("shape", [(8, 8), (32, 32), (16, 64)], ids=str)
def test_no_two_squares_of_an_image_share_a_number(shape):
    most = 0
    for turn in range(40):
        board = squares(shape, 2 * math.pi * (turn + 0.5) / 40, max(1, 0.1 * min(shape)))
        most = max(most, *(1 + max(line) - min(line) for line in zip(*board.values(), strict=True)))
    assert most_squares(*shape) - 3 <= most <= most_squares(*shape)


def test_half_of_the_level_of_the_image_goes_and_the_rest_is_as_it_was():
    x = natural(400)
    z = checkerboard_cutout(x, 4, Streams(0, "", 400))
    gone = (z == GREY).all(1)
    assert float(gone.double().mean()) == pytest.approx(0.2, abs=0.01)
    assert torch.equal(z, x.where(~gone[:, None], GREY))


def place(row, column):
    return torch.tensor(float(row)), torch.tensor(float(column))


def test_distances_to_a_segment():
    def measured(row, column, start, end):
        return float(distance(*place(row, column), place(*start), place(*end)))

    assert measured(3, 5, (3, 0), (3, 9)) == 0
    assert measured(5, 5, (3, 0), (3, 9)) == 2
    assert measured(1, 0, (0, 0), (4, 4)) == pytest.approx(math.sqrt(0.5))
    assert measured(6, 8, (0, 0), (3, 4)) == pytest.approx(5)  # beyond its end
    assert measured(-3, -4, (0, 0), (3, 4)) == pytest.approx(5)  # before its start


def covered(row, column, start, end):
    """Share of a pixel under a line, by vectors from the line's nearest point."""
    down, right = end[0] - start[0], end[1] - start[1]
    share = ((row - start[0]) * down + (column - start[1]) * right) / (down**2 + right**2)
    share = min(1, max(0, share))
    return max(0, 1 - math.dist((row, column), (start[0] + share * down, start[1] + share * right)))


@pytest.mark.parametrize(
    ("shape", "level", "count", "darkness"),
    [
        ((32, 32), 0.5, 1, 1),
        ((32, 32), 2.5, 8, 1),
        ((8, 8), 1.5, 4, 0.25),
        ((40, 64), 0.5, 3, 1),
        ((24, 16), 1, 4, 0.5),
    ],
)
def test_lines_are_those_of_the_numbers_drawn(shape, level, count, darkness):
    x = torch.zeros(2, 1, *shape, dtype=torch.float64)
    z = lines(x, level, Streams(0, "lines", 2))
    rng = Streams(0, "lines", 2)
    turns, spreads = numbers(rng, 1)[:, 0].tolist(), numbers(rng, 1)[:, 0].tolist()
    drawn = [numbers(rng, 3).tolist() for _ in range(count)]
    for n in range(2):
        clear = np.ones(shape)
        for line in drawn:
            row, column, own = line[n]
            turn = 2 * math.pi * (turns[n] + (0.1 + 0.9 * spreads[n]) * (own - 0.5))
            down, right = math.sin(turn) * min(shape), math.cos(turn) * min(shape)
            start = int(row * shape[0] - down), int(column * shape[1] - right)
            end = int(row * shape[0] + down), int(column * shape[1] + right)
            for pixel in np.ndindex(shape):
                clear[pixel] *= 1 - darkness * covered(*pixel, start, end)
        np.testing.assert_allclose(z[n, 0].numpy(), GREY * (1 - clear), rtol=0, atol=1e-9)


def test_lines_mix_the_image_with_grey():
    x, white = natural(5), torch.ones(5, 3, 32, 32, dtype=torch.float64)
    black = lines(torch.zeros_like(x), 2, Streams(0, "", 5)) / GREY
    torch.testing.assert_close(lines(x, 2, Streams(0, "", 5)), x + black * (GREY - x))
    torch.testing.assert_close(lines(white, 2, Streams(0, "", 5)), 1 + black * (GREY - 1))
