"""Names of runs and norms."""

from __future__ import annotations

import pytest

from holdfast.show.names import labels, norm_sign, ordered_norms


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["r/a/seed-0", "r/b/seed-0"], ["a", "b"]),
        (["r/a/seed-0", "r/a/seed-1"], ["seed-0", "seed-1"]),
        (["r/seed-0"], ["r/seed-0"]),
        (["ra/x", "rb/x"], ["ra", "rb"]),
        (["a", "a"], ["a", "a (2)"]),
    ],
)
def test_labels_lose_what_all_names_share_and_differ(names: list[str], short: list[str]) -> None:
    assert labels(names) == short


def test_norms_have_their_signs_and_their_order() -> None:
    assert [norm_sign(norm) for norm in ordered_norms(["zero", "l1", "linf", "l2", "l1"])] == ["ℓ∞", "ℓ2", "ℓ1", "zero"]
