from __future__ import annotations

import pytest

from holdfast.statistics import holm


def test_holm_steps_down_and_never_decreases() -> None:
    # Sorted 0.01, 0.03, 0.04 times 3, 2, 1 = 0.03, 0.06, 0.04; the last is raised to 0.06.
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))


def test_holm_stays_below_one_and_takes_none() -> None:
    assert holm([0.9, 0.8]) == (1.0, 1.0)
    assert holm([]) == ()
