"""Table 4.9 and the invariant of A, as properties of random problems."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.theory.linear_dynamics.descent import descend
from holdfast.theory.linear_dynamics.optimisers import SignGD
from holdfast.theory.linear_dynamics.partitions import sign_step
from holdfast.theory.linear_dynamics.problem import Problem, dct_basis, thesis_problem, thesis_start, vector
from holdfast.theory.linear_dynamics.signs import (
    arrival,
    longest_steps,
    moving_steps,
    observed_shift,
    sign_cases,
    sign_terms,
)

VALID = [case for case in sign_cases() if case.change is not None]
R2, R3, R6 = math.sqrt(2), math.sqrt(3), math.sqrt(6)
PRINTED = {  # the 13 rows of table 4.9
    (1, 1, 1): (R3, 0, 0),
    (1, 1, -1): (R3 / 3, R2, -R6 / 3),
    (1, 1, 0): (2 * R3 / 3, R2 / 2, -R6 / 6),
    (1, -1, 1): (R3 / 3, -R2, -R6 / 3),
    (1, 0, 1): (2 * R3 / 3, -R2 / 2, -R6 / 6),
    (-1, 1, -1): (-R3 / 3, R2, R6 / 3),
    (-1, -1, 1): (-R3 / 3, -R2, R6 / 3),
    (-1, -1, -1): (-R3, 0, 0),
    (-1, -1, 0): (-2 * R3 / 3, -R2 / 2, R6 / 6),
    (-1, 0, -1): (-2 * R3 / 3, R2 / 2, R6 / 6),
    (0, 1, -1): (0, R2, 0),
    (0, -1, 1): (0, -R2, 0),
    (0, 0, 0): (0, 0, 0),
}
numbers = st.floats(-20, 20, allow_nan=False)
variances = st.floats(1e-3, 1.0)
lengths = st.floats(0.01, 20)


def sign(value):
    return (value > 0) - (value < 0)


def with_terms(a, b, first, second):
    """A problem and the weights that have A and B."""
    problem = Problem(variances=vector(first, second, 0), target=vector(0, 0, 0))
    return problem, vector(a * R3 / first, b * R2 / second, 1)


def test_thirteen_of_27_combinations_exist_and_have_the_printed_steps():
    assert len(sign_cases()) == 27
    assert {case.signs for case in VALID} == set(PRINTED)
    for case in VALID:
        assert case.change == pytest.approx(PRINTED[case.signs], abs=1e-15)


def test_comparisons_are_those_of_the_lengths():
    for case in VALID:
        _, plus, minus = case.signs
        a, b = abs(plus + minus), abs(plus - minus)
        assert case.comparison == f"|A| {'>' if a > b else '<' if a < b else '='} |B|"


@given(st.integers(-8, 8), st.integers(-8, 8))
def test_all_pairs_have_one_of_the_thirteen(a, b):
    assert (sign(a), sign(a + b), sign(a - b)) in PRINTED


def terms(case, shorter, excess, side):
    """A and B with the signs of a case; `side` is the sign of B where the case leaves it open."""
    a, plus, minus = case.signs
    longer = shorter + excess
    lengths = {">": (longer, shorter), "<": (shorter, longer), "=": (shorter, shorter)}[case.comparison[4]]
    return a * lengths[0], (side if plus == minus != 0 else sign(plus - minus)) * lengths[1]


@pytest.mark.parametrize("case", VALID, ids=lambda case: str(case.signs))
@given(lengths, lengths, st.sampled_from((1, -1)), st.floats(0.1, 3.0))
@settings(max_examples=25)
def test_a_step_between_pairs_is_that_of_its_signs(case, shorter, excess, side, slope):
    a, b = terms(case, shorter, excess, side)
    assert case.signs == (sign(a), sign(a + b), sign(a - b))
    x, y = sign_step(vector(a), vector(b), slope)
    assert a - float(x) == pytest.approx(case.change[0] / R3, abs=1e-12)
    assert b - float(y) == pytest.approx(slope * case.change[1] / R2, abs=1e-12)


@pytest.mark.parametrize(
    "case", [case for case in VALID if "=" not in case.comparison], ids=lambda case: str(case.signs)
)
@given(lengths, lengths, st.sampled_from((1, -1)), variances, st.floats(1e-3, 0.1))
@settings(max_examples=25)
def test_a_step_of_training_is_that_of_its_signs(case, shorter, excess, side, second, rate):
    """Where lengths are equal, rounding decides: the table speaks of exact numbers."""
    problem, start = with_terms(*terms(case, shorter, excess, side), 0.7, second)
    path = descend(problem, SignGD(rate=rate), start, steps=1, basis=dct_basis(3))
    torch.testing.assert_close(path[0] - path[1], rate * vector(*case.change), rtol=0, atol=1e-10)


@given(numbers, numbers, variances, variances, st.floats(1e-3, 0.5))
def test_once_small_a_stays_small(a, b, first, second, rate):
    """Proposition 4.D.3, and its bound is the best one."""
    problem, _ = with_terms(0, 0, first, second)
    limit, _ = longest_steps(problem, rate)
    _, start = with_terms(a / 20 * float(limit), b * float(limit), first, second)
    path = descend(problem, SignGD(rate=rate), start, steps=40, basis=dct_basis(3))
    assert float(sign_terms(problem, path)[0].abs().max()) <= float(limit) * (1 + 1e-9)


@given(numbers, numbers, variances, variances)
def test_lengths_of_a_shrink_and_the_irrelevant_weight_follows_the_sign_of_the_error(a, b, first, second):
    rate = 0.05
    problem, start = with_terms(a * first * rate, b * first * rate, first, second)
    path = descend(problem, SignGD(rate=rate), start, steps=80, basis=dct_basis(3))
    x, y = sign_terms(problem, path)
    far = x[:-1].abs() > longest_steps(problem, rate)[0]
    assert bool((x[1:].abs() < x[:-1].abs())[far].all())
    moved = path[1:, 2] - path[:-1, 2]
    clear = (x.abs() - y.abs()).abs()[:-1] > 1e-9
    torch.testing.assert_close(
        moved[clear], (rate * R6 / 3 * x.sign()[:-1] * (x.abs() < y.abs())[:-1])[clear], rtol=0, atol=1e-9
    )


def test_the_example_of_the_thesis_arrives_at_step_638():
    """Printed for the start, 0.0289 and 0.0177, are the lengths at the weights 0."""
    problem, start = thesis_problem(), thesis_start()
    a, b = (float(x.abs()) for x in sign_terms(problem, start))
    assert (a, b) == (pytest.approx(0.02880978, abs=5e-9), pytest.approx(0.01769535, abs=5e-9))
    at_zero = [float(x.abs()) for x in sign_terms(problem, vector(0, 0, 0))]
    assert at_zero == [pytest.approx(0.0289, abs=5e-5), pytest.approx(0.0177, abs=5e-5)]
    assert a < 0.02885 < at_zero[0]  # rounds to 0.0288
    path = descend(problem, SignGD(rate=0.01), start, steps=700, basis=dct_basis(3))
    assert int(arrival(problem, path, 0.01)) == 638
    assert int(moving_steps(problem, path, 0.01)) == 526
    assert float(observed_shift(problem, path, 0.01)) == pytest.approx(-526 * 0.01 * R6 / 3)


@given(st.floats(0.5, 20), numbers, variances, variances)
def test_the_arrival_is_the_first_step_with_a_below_its_longest_step(a, b, first, second):
    problem, start = with_terms(a * first * 0.1, b * first * 0.1, first, second)
    path = descend(problem, SignGD(rate=0.1), start, steps=70, basis=dct_basis(3))
    beyond = sign_terms(problem, path)[0].abs() / longest_steps(problem, 0.1)[0] - 1
    assume(float(beyond.abs().min()) > 1e-9)  # on the border rounding decides
    inside = beyond < 0
    assert int(arrival(problem, path, 0.1)) == inside.tolist().index(True)


def test_a_path_that_has_not_arrived_is_refused():
    path = descend(thesis_problem(), SignGD(rate=0.01), thesis_start(), steps=637, basis=dct_basis(3))
    with pytest.raises(ValueError, match="637 steps ends before it arrives"):
        arrival(thesis_problem(), path, 0.01)


@pytest.mark.parametrize("values", [(1, 1), (1, 1, 1)])
def test_other_spectra_are_refused(values):
    problem = Problem(variances=vector(*values), target=vector(*values))
    with pytest.raises(ValueError, match="three frequencies of which the last is irrelevant"):
        sign_terms(problem, vector(*values))
