"""Mean, deviation and interval of a list."""

import math

import pytest

from holdfast.analysis.spread import Spread, give_or_take, spread


def test_closed_form():
    found = spread([1.0, 2.0, 3.0, 6.0])
    assert found.mean == 3.0
    assert found.deviation == pytest.approx(math.sqrt(14 / 3))
    assert found.half == pytest.approx(1.959964 * math.sqrt(14 / 3) / 2)


def test_one_number_says_nothing_of_its_error():
    assert spread([0.25]) == Spread(0.25, None, None)
    assert give_or_take(None, "{:.2f}".format) == "± ?"
    assert give_or_take(0.126, "{:.2f}".format) == "± 0.13"
