import pytest

from holdfast.corruptions.common.tables import EXTRA, STANDARD, TABLES, parameters, table_side
from tests.corruptions.published import published

KINDS = STANDARD + EXTRA


def test_every_table_has_every_kind_in_five_severities():
    assert (len(STANDARD), len(EXTRA), len(set(KINDS))) == (15, 4, 19)
    for table in TABLES.values():
        assert set(table) == set(KINDS)
        assert all(len(rows) == 5 and len({len(row) for row in rows}) == 1 for rows in table.values())


@pytest.mark.parametrize(
    ("size", "side"),
    [
        ((8, 8), 32),
        ((28, 28), 32),
        ((45, 45), 32),
        ((46, 46), 64),
        ((119, 119), 64),
        ((120, 120), 224),
        ((299, 299), 224),
        ((1000, 32), 32),
        ((64, 224), 64),
    ],
)
def test_the_table_is_the_nearest_by_ratio_of_the_shorter_side(size, side):
    assert table_side(*size) == side
    assert table_side(*reversed(size)) == side


@pytest.mark.parametrize("side", TABLES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_published_sizes_get_the_published_numbers(kind, side):
    for severity in range(1, 6):
        assert list(parameters(kind, severity, side, side)) == pytest.approx(published(kind, severity, side), rel=1e-12)


GROWING = {
    "defocus_blur": "radius, softness of the rim",
    "glass_blur": "standard deviation, reach, -",
    "motion_blur": "radius, standard deviation",
    "snow": "-, -, enlargement of the flakes, -, radius of trails, standard deviation of trails, -",
    "frost": "-, -, scale of the pane",
    "elastic_transform": "factor of displacements, their smoothing, movement of points",
    "gaussian_blur": "standard deviation",
    "spatter": "-, -, smoothing of the drops, -, -, blur of mud",
}
"""What of each kind is a length in pixels, in the order of its parameters; kinds left out have none."""


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_and_nothing_else_grow_with_the_side(kind):
    small, large = (parameters(kind, 5, side, side) for side in (224, 448))
    names = GROWING[kind].split(", ") if kind in GROWING else ["-"] * len(small)
    for name, before, after in zip(names, small, large, strict=True):
        assert after == pytest.approx(before * (1 if name == "-" else 2))


def test_below_32_pixels_lengths_stay_but_elastic_shares_shrink():
    assert parameters("gaussian_blur", 5, 8, 8) == parameters("gaussian_blur", 5, 32, 32) == (1,)
    assert parameters("elastic_transform", 1, 8, 8)[2] == pytest.approx(0.64)
    assert parameters("gaussian_blur", 5, 40, 90) == pytest.approx((40 / 32,))
    assert parameters("gaussian_blur", 5, 48, 48) == pytest.approx((1.5 * 48 / 64,))
