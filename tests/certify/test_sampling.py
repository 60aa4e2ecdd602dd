import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr, ndtri

from holdfast.certify.bounds import BOUNDS, Question, Tally, expected_radius, unanimous
from holdfast.certify.noise import Gaussian, Laplace, Uniform
from holdfast.certify.sampling import BLOCK, Decision, Fixed, FullRadius
from holdfast.certify.settle import check_possible, settle
from holdfast.families import SAMPLINGS
from holdfast.statistics import lower_bounds, sequential_lower_bounds
from tests import chance

SIGMA = 0.5
RADII = (0.0, 0.25, 0.5)


def question(*, n=100_000, alpha=0.001, bound="one_vs_rest", noise=None):
    return Question(noise or Gaussian(SIGMA), bound, n, alpha)


def counted(top, other, trials):
    return Tally(*(np.array([float(value)]) for value in (top, other, trials)))


class Draws:
    """Bernoulli or multinomial answers of many images at once: probabilities (N, K), class 0 in question."""

    def __init__(self, shares, seed=0):
        self.shares = np.column_stack((shares, 1 - np.asarray(shares))) if np.ndim(shares) == 1 else shares
        self.random = np.random.default_rng(seed)
        self.counts = {}
        self.asked = []

    def __call__(self, purpose, rows, goals):
        counts = self.counts.setdefault(purpose, np.zeros(self.shares.shape, dtype=np.int64))
        more = goals - counts[rows].sum(1)
        assert (more > 0).all()
        counts[rows] += self.random.multinomial(more, self.shares[rows])
        self.asked.append((purpose, rows, goals))
        seen = counts[rows].astype(np.float64)
        return Tally(seen[:, 0], seen[:, 1:].max(1), seen.sum(1))


def simulate(sampling, asked, shares, seed=0):
    draws = Draws(shares, seed)
    everyone = np.arange(len(shares))
    selection = Draws(shares, seed + 1)("selection", everyone, np.full(len(shares), 100))
    radius, used = settle(sampling, asked, selection, draws)
    return radius, used, draws


def true_radius(shares, sigma=SIGMA):
    """Of class 0: negative where it is not the most frequent."""
    shares = np.column_stack((shares, 1 - np.asarray(shares))) if np.ndim(shares) == 1 else shares
    return sigma / 2 * (ndtri(shares[:, 0]) - ndtri(shares[:, 1:].max(1)))


@pytest.mark.parametrize(
    ("top", "n", "sigma", "radius"),
    [  # Certify at alpha .001
        (100_000, 100_000, 0.25, 0.95286414),
        (99_900, 100_000, 0.25, 0.75005025),
        (90_000, 100_000, 0.25, 0.31621117),
        (60_000, 100_000, 0.5, 0.12047240),
        (50_500, 100_000, 0.5, 0.00013655),
        (100, 100, 0.5, 0.75023751),
        (1_000_000, 1_000_000, 0.125, 0.54334671),
    ],
)
def test_radii_have_the_reference_values(top, n, sigma, radius):
    found = question(n=n, noise=Gaussian(sigma)).radius(counted(top, n - top, n))
    assert found[0] == pytest.approx(radius, abs=2e-8)


def test_a_bound_below_one_half_proves_nothing():
    assert question().radius(counted(50_400, 49_600, 100_000))[0] < 0  # abstains
    assert question().radius(counted(0, 5, 5))[0] == -np.inf


@pytest.mark.parametrize("bound", BOUNDS)
@given(st.integers(1, 400), st.integers(0, 400), st.floats(0.05, 2), st.floats(1.01, 3))
def test_radii_grow_with_the_count_and_the_noise(bound, top, other, sigma, factor):
    trials = top + other + 10
    few, more = (question(bound=bound, noise=Gaussian(sigma)).radius(counted(top + k, other, trials)) for k in (0, 1))
    assert few[0] < more[0]
    wider = question(bound=bound, noise=Gaussian(factor * sigma)).radius(counted(top + 1, other, trials))
    assert (wider[0] > more[0]) == (more[0] > 0)


@given(st.integers(2, 300), st.integers(0, 300), st.integers(0, 300))
def test_two_bounds_prove_at_least_what_the_first_alone_proves_at_half_alpha(top, other, rest):
    seen = counted(top, other, top + other + rest)
    both = question(bound="two_class").radius(seen)
    assert both[0] >= question(alpha=0.0005).radius(seen)[0] - 1e-12


def test_two_bounds_certify_a_class_that_is_rarer_than_one_half():
    seen = counted(4_000, 1_000, 10_000)
    assert question().radius(seen)[0] < 0
    expected = SIGMA / 2 * (ndtri(0.4) - ndtri(0.1))
    assert question(bound="two_class").radius(seen)[0] == pytest.approx(expected, rel=0.1)


CASES = 10_000
NEAR = np.array([0.4, 0.5, 0.501, 0.52, *ndtr(np.array([0.25, 0.5]) / SIGMA), 0.85, 0.95, 0.999, 1.0])
MODES = {
    "fixed": Fixed(),
    "full radius": FullRadius(),
    "short plan": FullRadius(loss=0.3),
    "decision": Decision(radii=RADII),
    "hasty decision": Decision(radii=RADII, futility=0.5),
}


@pytest.mark.parametrize("mode", MODES)
def test_certificates_are_wrong_no_more_often_than_they_say(mode):
    shares = np.repeat(NEAR, CASES // len(NEAR))
    radius, _, _ = simulate(MODES[mode], question(n=1_000, alpha=0.05), shares)
    wrong = radius > np.maximum(true_radius(shares), 0)
    for share in NEAR:
        assert wrong[shares == share].mean() <= 0.05 + chance.share_error(CASES // len(NEAR), 0.05), share
    assert wrong.mean() <= 0.05


@pytest.mark.parametrize("mode", ["fixed", "full radius", "decision"])
def test_certificates_by_two_bounds_are_wrong_no_more_often_than_they_say(mode):
    # Many equally likely others are the hardest case: the most frequent of them is counted too often, never too rarely.
    kinds = [[0.5, 0.5, *[0.0] * 8], [0.4, 0.3, 0.3, *[0.0] * 7], [0.28, *[0.08] * 9], [0.1] * 10, [0.9, 0.1, *[0] * 8]]
    shares = np.repeat(np.array(kinds), CASES // len(kinds), axis=0)
    radius, _, _ = simulate(MODES[mode], question(n=400, alpha=0.05, bound="two_class"), shares)
    wrong = radius > np.maximum(true_radius(shares), 0)
    assert wrong.mean() <= 0.05
    assert (radius[shares[:, 0] == 0.28] > 0).mean() > 0.5  # and it is not for want of trying


def test_looking_again_and_again_at_a_fixed_bound_would_be_wrong_too_often():
    # Why the decision needs its own bound: this is what the test of coverage must be able to see.
    shares = np.full(2_000, 0.5)
    draws, ever = Draws(shares), np.zeros(2_000, dtype=bool)
    for look in range(BLOCK, 2_000, BLOCK):
        seen = draws("estimation", np.arange(2_000), np.full(2_000, look))
        ever |= question(alpha=0.05).radius(seen) > 0
    assert ever.mean() > 0.1


SPREAD = ndtr(np.random.default_rng(5).normal(1.5, 1.5, 400))


def test_a_planned_sample_loses_little_of_the_mean_radius():
    fixed, _, _ = simulate(Fixed(), question(), SPREAD, seed=1)
    planned, used, _ = simulate(FullRadius(), question(), SPREAD, seed=2)
    assert np.maximum(planned, 0).mean() >= 0.97 * np.maximum(fixed, 0).mean()
    assert used.mean() < 100_000 / 2.5
    assert used.max() <= 100_000
    close, more, _ = simulate(FullRadius(loss=0.001), question(), SPREAD, seed=2)
    assert np.maximum(close, 0).mean() > np.maximum(planned, 0).mean()
    assert more.mean() > used.mean()


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("seen", [(80, 15), (100, 0), (99, 1), (55, 45)])
def test_the_expected_radius_is_a_mean_over_eight_quantiles_of_the_posterior(seen, bound):
    top, other = seen
    asked, trials, part = question(bound=bound), 10_000, other / max(1, 100 - top)
    tops = trials * stats.beta(top + 0.5, 100 - top + 0.1).ppf((np.arange(8) + 0.5) / 8)
    radii = [max(0.0, asked.radius(counted(k, part * (trials - k), trials))[0]) for k in tops]
    expected = expected_radius(counted(top, other, 100), trials, asked)
    assert expected[0] == pytest.approx(np.mean(radii), rel=1e-9)


@pytest.mark.parametrize("loss", [0.02, 0.5])  # of 0.5, a quarter is what may be lost
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_plan_is_the_least_that_loses_no_more_than_its_share_and_never_more_than_a_quarter(bound, loss):
    asked, n = question(bound=bound), 100_000
    top = np.array([1000.0, 999, 990, 900, 700, 600, 560])
    pilot = Tally(top, 1000 - top, np.full(len(top), 1000.0))
    plan, most = FullRadius(loss=loss).first(pilot, asked), n - n // 100
    whole, unanimity = expected_radius(pilot, most, asked), asked.radius(unanimous(most))
    allowed = np.minimum(whole / 4, loss * np.maximum(whole, unanimity / 3))
    assert (whole - expected_radius(pilot, plan, asked) <= allowed * (1 + 1e-12)).all()
    fewer = np.maximum(1, plan - most // 100)  # a plan is exact to a hundredth
    assert (whole - expected_radius(pilot, fewer, asked) > allowed).all()


def test_a_decision_agrees_with_all_samples_after_a_tenth_of_them():
    fixed, _, _ = simulate(Fixed(), question(), SPREAD, seed=1)
    decided, used, _ = simulate(Decision(radii=RADII), question(), SPREAD, seed=2)
    assert used.mean() < 10_000
    for radius in RADII:
        sides = [(found >= radius) & (found > 0) for found in (fixed, decided)]
        assert (sides[0] != sides[1]).mean() <= 0.02  # the two have different samples; see the benchmark


def test_clear_answers_come_early_and_close_ones_late():
    shares = np.array([0.02, 0.3, 1.0, ndtr(0.25 / SIGMA), ndtr(0.4 / SIGMA)])
    radius, used, _ = simulate(Decision(radii=RADII), question(), shares)
    assert used[0] == BLOCK
    assert used[1] <= 2_000
    assert radius[2] >= 0.5
    assert used[2] <= 200
    assert used[3] > 1_000
    assert 0.25 <= radius[4] < 0.5
    assert (radius[:2] <= 0).all()


def test_hopeless_images_leave_after_the_pilot():
    radius, used, draws = simulate(FullRadius(), question(), np.array([0.2, 0.9, 0.3]))
    assert used[[0, 2]].tolist() == [1_000, 1_000]
    assert radius[[0, 2]].tolist() == [-np.inf, -np.inf]
    assert [rows.tolist() for purpose, rows, _ in draws.asked if purpose == "estimation"] == [[1]]


def test_settled_images_leave():
    _, used, draws = simulate(Decision(radii=(0.25,)), question(), np.array([1.0, 0.7, 0.05, 0.69]))
    rows = [set(asked.tolist()) for _, asked, _ in draws.asked]
    assert rows[0] == {0, 1, 2, 3}
    assert all(after <= before for before, after in itertools.pairwise(rows))
    for image in range(4):
        assert used[image] == max(int(goals[asked == image][0]) for _, asked, goals in draws.asked if image in asked)


def test_looks_are_at_whole_blocks():
    asked = question(n=5_000)
    _, used, draws = simulate(Decision(radii=(0.25,)), asked, np.full(20, ndtr(0.25 / SIGMA) + 0.02))
    looks = sorted({int(goal) for _, _, goals in draws.asked for goal in goals})
    assert all(look % BLOCK == 0 for look in looks[:-1])
    assert looks[-1] == 5_000 == used.max()


def test_a_decision_looks_again_after_a_tenth_more():
    decision, asked = Decision(radii=(0.25,)), question(n=5_000)
    shares = ndtr(0.25 / SIGMA) + 0.012
    seen = [(round(shares * n), n - round(shares * n), n) for n in (500, 2_000)]
    looks = [decision.following(counted(*each), asked)[0] for each in seen]
    assert looks == [-(-550 // BLOCK) * BLOCK, -(-2_200 // BLOCK) * BLOCK]


@pytest.mark.parametrize("seen", [(330, 170, 500), (1_320, 680, 2_000), (1_990, 1_010, 3_000)])
def test_a_radius_is_given_up_at_the_predicted_probability_it_says(seen):
    # Ways the sample may go on: a probability from the posterior, then that many successes in the rest.
    asked, decision, random = question(n=4_000), Decision(radii=RADII, futility=0.02), np.random.default_rng(0)
    shares = random.beta(seen[0] + 0.5, seen[1] + 0.1, 20_000)
    top = (seen[0] + random.binomial(4_000 - seen[2], shares)).astype(np.float64)
    at_last = asked.radius(Tally(top, 4_000 - top, np.full(20_000, 4_000.0)), lower_bounds, 0.25 * asked.alpha)
    assert (at_last >= decision.prospect(counted(*seen), asked)).mean() == pytest.approx(0.02, abs=0.01)


def test_the_last_look_has_a_bound_of_its_own():
    # Between the two bounds at n: only the fixed bound of the last look proves it.
    asked, decision = question(), Decision(radii=(0.25,))
    seen = counted(69_750, 30_250, 100_000)
    at_last = asked.radius(seen, lower_bounds, 0.25 * asked.alpha)
    assert decision.radius(seen, asked)[0] == at_last[0] >= 0.25
    before = counted(69_749, 30_250, 99_999)
    assert decision.radius(before, asked)[0] < 0.25


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("sampling", [Fixed(), FullRadius(), Decision(radii=(0.0, 0.3))], ids=repr)
@settings(max_examples=6, deadline=None)
@given(st.floats(1e-6, 0.3))
def test_too_few_samples_are_refused_with_the_fewest_that_do(sampling, bound, alpha):
    with pytest.raises(ValueError, match=r"n must be at least \d+ to .* at alpha .*, got 1$") as refusal:
        check_possible(sampling, question(n=1, alpha=alpha, bound=bound))
    fewest = int(str(refusal.value).split()[5])
    check_possible(sampling, question(n=fewest, alpha=alpha, bound=bound))
    with pytest.raises(ValueError, match=f"at least {fewest} "):
        check_possible(sampling, question(n=fewest - 1, alpha=alpha, bound=bound))


def test_the_fewest_samples_are_those_of_the_formula():
    # alpha^(1/n) > 1/2 from n = 10 on at alpha .001; with two bounds (alpha / 2)^(1/n), from n = 11 on.
    for bound, fewest in (("one_vs_rest", 10), ("two_class", 11)):
        with pytest.raises(ValueError, match=f"n must be at least {fewest} to prove anything at alpha 0.001, got 9"):
            check_possible(Fixed(), question(n=9, bound=bound))


def test_radii_out_of_reach_are_refused():
    with pytest.raises(ValueError, match="not even 1,000,000,000 are enough to certify a radius of 5 at alpha"):
        check_possible(Decision(radii=(0.1, 5.0)), question())
    with pytest.raises(ValueError, match="not even"):
        check_possible(Decision(radii=(0.3,)), question(noise=Uniform(0.3)))
    check_possible(Decision(radii=(5.0,)), question(noise=Laplace(1.0)))
    with pytest.raises(ValueError, match=r"n must be at least \d+ to certify a radius of 1.8 at"):
        check_possible(Decision(radii=(0.1, 1.8)), question(n=10_000))


@pytest.mark.parametrize("radii", [(), (-0.1,), (float("nan"),), (0.1, float("inf"))])
def test_impossible_lists_of_radii_are_refused(radii):
    with pytest.raises(ValueError, match="radii: expected one or more numbers that are not negative"):
        Decision(radii=radii)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_impossible_shares_are_refused(share):
    with pytest.raises(ValueError, match="loss must lie between 0 and 1"):
        FullRadius(loss=share)
    with pytest.raises(ValueError, match="futility must lie between 0 and 1"):
        Decision(radii=(0.0,), futility=share)


def test_samplings_compare_by_their_fields_and_have_names():
    assert {name: kind.__name__ for name, kind in SAMPLINGS.items()} == {
        "fixed": "Fixed", "full_radius": "FullRadius", "decision": "Decision",
    }  # fmt: skip
    assert Decision(radii=(0.1,)) == Decision(radii=(0.1,)) != Decision(radii=(0.2,))
    assert all(dataclasses.is_dataclass(kind) for kind in SAMPLINGS.values())


def test_all_of_one_class_gives_the_closed_form():
    for n in (10, 1_000, 100_000):
        expected = SIGMA * ndtri(0.001 ** (1 / n))
        assert question(n=n).radius(unanimous(n))[0] == pytest.approx(expected, rel=1e-9)


def test_defaults_are_those_of_the_docs():
    assert FullRadius() == FullRadius(loss=0.02)
    assert Decision(radii=(0.0,)) == Decision(radii=(0.0,), futility=0.02)
    assert BLOCK == 64
    assert [FullRadius().pilot(n) for n in (99, 100, 100_000)] == [0, 1, 1_000]


def test_a_plan_is_found_to_the_128th_part_of_the_copies():
    # Of 12,929 copies 129 are the pilot, so that the parts are whole hundreds; each is tried here.
    asked, n = question(), 12_929
    pilot = Tally(np.array([129.0, 126, 110, 90]), np.array([0.0, 3, 19, 39]), np.full(4, 129.0))
    parts = 100.0 * np.arange(1, 129)
    hoped = np.stack([expected_radius(pilot, part, asked) for part in parts])
    largest = asked.radius(unanimous(12_800))
    enough = hoped[-1] - np.minimum(hoped[-1] / 4, 0.02 * np.maximum(hoped[-1], largest / 3))
    assert FullRadius().first(pilot, question(n=n)).tolist() == parts[(hoped >= enough).argmax(0)].tolist()


def test_an_image_that_is_expected_to_prove_nothing_gets_the_least_that_is_planned():
    # Its radius is positive at the quantile of 99 % but at none of the eight that the expectation is a mean of.
    asked, most = question(n=12_929), 12_800
    pilot = counted(54, 75, 129)
    assert expected_radius(pilot, most, asked)[0] == 0
    assert FullRadius().first(pilot, asked).tolist() == [most // 128]
    assert FullRadius().first(counted(40, 89, 129), asked).tolist() == [0]


@pytest.mark.parametrize("bound", BOUNDS)
def test_before_the_last_look_three_quarters_of_alpha_are_spent(bound):
    asked, seen = question(bound=bound), counted(700, 200, 1_000)
    expected = asked.radius(seen, sequential_lower_bounds, 0.75 * asked.alpha)
    assert Decision(radii=RADII).radius(seen, asked) == expected


def test_a_radius_is_open_only_between_what_is_proved_and_what_is_still_likely():
    asked, seen = question(n=5_000), counted(1_320, 680, 2_000)
    proved = float(Decision(radii=RADII).radius(seen, asked)[0])
    likely = float(Decision(radii=RADII).prospect(seen, asked)[0])

    def goes_on(radius):
        return Decision(radii=(radius,)).following(seen, asked)[0] > 2_000

    assert 0 < proved < likely
    assert [goes_on(radius) for radius in (proved, np.nextafter(proved, 1), likely, np.nextafter(likely, 1))] == [
        False, True, True, False,
    ]  # fmt: skip


def test_one_open_radius_is_enough_to_go_on():
    asked, seen = question(n=5_000), counted(1_320, 680, 2_000)
    likely = float(Decision(radii=RADII).prospect(seen, asked)[0])
    assert Decision(radii=(0.0, likely, 3.0)).following(seen, asked)[0] > 2_000


def test_the_pilot_does_not_count_among_the_copies_that_must_agree():
    # (10^-60)^(1/n) > 1/2 from n = 200 on; of 202 copies two are the pilot.
    for sampling, fewest in ((Fixed(), 200), (FullRadius(), 202)):
        with pytest.raises(ValueError, match=f"n must be at least {fewest} to prove anything"):
            check_possible(sampling, question(n=100, alpha=1e-60))


@pytest.mark.parametrize(
    ("sampling", "alpha"), [(Fixed(), 2.0**-20), (FullRadius(), 2.0**-20), (Decision(radii=(0.0,)), 2.0**-18)]
)
def test_a_radius_of_exactly_zero_is_no_radius(sampling, alpha):
    # All of 20 copies bound the probability by exactly one half, for a decision at a quarter of its alpha.
    assert sampling.falls_short(question(n=20, alpha=alpha))
    assert sampling.falls_short(question(n=21, alpha=alpha)) is None


def test_what_could_reach_a_radius_of_exactly_zero_at_best_is_hopeless():
    assert FullRadius().first(counted(5, 0, 5), question(n=20, alpha=2.0**-20)).tolist() == [0]
    assert FullRadius().first(counted(5, 0, 5), question(n=21, alpha=2.0**-20)).tolist() == [21]


def test_the_largest_radius_may_be_the_one_that_all_copies_prove():
    asked = question(n=1_000)
    agreed = float(Decision(radii=RADII).radius(unanimous(1_000), asked)[0])
    assert Decision(radii=(agreed,)).falls_short(asked) is None
    assert Decision(radii=(0.0, float(np.nextafter(agreed, 9)))).falls_short(asked)


def test_small_radii_are_radii():
    # Of little noise no radius is near 1.
    for sampling in (Fixed(), FullRadius(), Decision(radii=(0.0,))):
        assert sampling.falls_short(question(n=300, noise=Gaussian(0.01))) is None


def test_what_noise_without_an_end_proves_has_no_limit():
    with pytest.raises(ValueError, match=r"radius of 5 at alpha 0\.001, got 100000$"):
        check_possible(Decision(radii=(5.0,)), question())


def test_a_goal_of_one_copy_is_drawn():
    class Single(Fixed):
        def first(self, pilot, asked):
            return np.array([1, 0])

    draws = Draws(np.array([1.0, 1.0]))
    radius, used = settle(Single(), question(), counted(1, 0, 1)[np.array([0, 0])], draws)
    assert used.tolist() == [1, 0]
    assert [rows.tolist() for _, rows, _ in draws.asked] == [[0]]
    assert radius[0] > -np.inf == radius[1]


def test_a_hopeful_image_gets_a_copy_however_few_there_are():
    # Nothing is expected of 50 copies, but much at the quantile of 99 %.
    asked, pilot = question(n=50), counted(4, 5, 9)
    assert expected_radius(pilot, 50, asked)[0] == 0
    assert FullRadius().first(pilot, asked).tolist() == [1]
