"""Magnitudes of cosine transforms as maps and along the diagonal."""

from holdfast.show.spectra import DARKEST, along_diagonal, spectrum_map


def test_a_map_has_powers_of_ten_of_the_largest():
    drawn = spectrum_map("a map", [[1000.0, 100.0, 0.0], [10.0, 1.0, 1e-9]])
    (trace,) = drawn.spec["data"]
    assert trace["z"] == [[0, -1, -6], [-2, -3, -6]]
    assert DARKEST == 1e-6
    assert drawn.title == "a map, relative to the largest, as powers of ten"
    assert drawn.spec["layout"]["yaxis"]["autorange"] == "reversed"


def test_the_colour_of_high_values_may_be_that_of_worse_ones():
    reversed_ = [spectrum_map("m", [[1.0]], high_is_worse=worse).spec["data"][0]["reversescale"] for worse in (0, 1)]
    assert reversed_ == [0, 1]


def test_black_is_drawn():
    assert spectrum_map("a map", [[0.0]]).spec["data"][0]["z"] == [[-6]]


def test_the_diagonal_goes_along_both_sides_in_the_same_proportion_and_leaves_zeros_out():
    assert along_diagonal([[1.0, 2.0], [3.0, 4.0]]) == ((0, 1), (1, 4))
    assert along_diagonal([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]) == ((0, 1, 2, 3), (1, 2, 7, 8))
    assert along_diagonal([[1.0], [2.0], [3.0]]) == ((0, 1, 2), (1, 2, 3))
    assert along_diagonal([[0.0, 2.0], [3.0, 4.0]]) == ((1,), (4,))
    assert along_diagonal([[0.0]]) == ((), ())
