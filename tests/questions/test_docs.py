"""The help of questions."""

import pytest

from holdfast.questions.docs import defaults, number_written
from holdfast.questions.surface import LossSurface


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (8 / 255, "8/255"), (0.5 / 255, "0.00196078"), (0.1, "0.1"), (1.0, "1"), (0.0, "0"), (0.2, "0.2"),
        (3.0, "3"), (float("inf"), "inf"), (-1 / 255, "-1/255"),
    ],
)  # fmt: skip
def test_levels_of_images_are_fractions(value, expected):
    assert number_written(value) == expected


def test_defaults_are_written_as_recipes_write_them():
    assert defaults(LossSurface) == {
        "along": "gradient,random", "show": "", "radius": "", "steps": "20", "clip": "false", "norm": "linf",
        "eps": "8/255",
    }  # fmt: skip
