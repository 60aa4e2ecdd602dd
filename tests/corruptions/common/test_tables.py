import pytest

from holdfast.corruptions.common.tables import EXTRA, LENGTHS, STANDARD, TABLES, parameters, table_side

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
        row = TABLES[side][kind][severity - 1]
        expected = tuple(side * share for share in row) if kind == "elastic_transform" else row
        assert parameters(kind, severity, side, side) == pytest.approx(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_and_nothing_else_grow_with_the_side(kind):
    small, large = (parameters(kind, 2, side, side) for side in (224, 448))
    for place, (before, after) in enumerate(zip(small, large, strict=True)):
        grows = place in LENGTHS.get(kind, ()) or kind == "elastic_transform"
        assert after == pytest.approx(before * (2 if grows else 1))


def test_below_32_pixels_lengths_stay_but_elastic_shares_shrink():
    assert parameters("gaussian_blur", 5, 8, 8) == parameters("gaussian_blur", 5, 32, 32) == (1,)
    assert parameters("elastic_transform", 1, 8, 8)[2] == pytest.approx(0.64)
    assert parameters("gaussian_blur", 5, 40, 90) == pytest.approx((40 / 32,))
