"""Thresholds for tests of random draws, all from one false-alarm rate.

A seeded test never fails by chance twice, but it fails once: when correct code comes to draw other numbers. So a test
of draws takes its thresholds from here. Each call is one check that correct code fails with a probability of at most
`RATE`; a ledger counts the calls of a run, over all processes, and the run fails where they exceed `BUDGET` together.
"""

import math

import numpy as np
import pytest
from scipy import stats

BUDGET = 1e-6
"""Most that all checks of a run may raise false alarms with."""

RATE = 1e-9
"""Probability of a false alarm of one check."""

_counted = []


def level(count=1):
    r"""What each of `count` p-values must exceed."""
    _counted.append(RATE)
    return RATE / count


def deviations(count=1):
    r"""How many standard deviations none of `count` normal values leaves: 6.1 for one.

    For normal values exact, for means and variances of many draws by the central limit theorem.
    """
    return float(stats.norm.isf(level(count) / 2))


def mean_error(draws, *, variance, reach, count=1):
    r"""How far none of `count` means of draws within `reach` of their expectation is off, by Bernstein's inequality.

    .. math:: \sqrt{2 v L / n} + r L / 3 n, \quad L = \ln(2 / \alpha)

    Holds for any law, so also for few draws and rare events.
    """
    log = math.log(2 / level(count))
    return math.sqrt(2 * variance * log / draws) + reach * log / (3 * draws)


def has_mean(values, expected):
    """Whether a sample has an expected mean, by the central limit theorem and its own deviation."""
    values = np.asarray(values, dtype=np.float64).flatten()
    return bool(abs(values.mean() - expected) < deviations() * values.std() / math.sqrt(len(values)))


def share_error(draws, share, count=1):
    """How far none of `count` shares of draws of an event is off, given its probability."""
    return mean_error(draws, variance=share * (1 - share), reach=max(share, 1 - share), count=count)


def spread_error(draws, count=1):
    """By which factor, minus 1, none of `count` standard deviations of normal values of known mean is off."""
    alpha = level(count) / 2
    low, high = stats.chi2.ppf(alpha, draws), stats.chi2.isf(alpha, draws)
    return float(max(1 - math.sqrt(low / draws), math.sqrt(high / draws) - 1))


def cdf_error(draws, count=1):
    r"""How far none of `count` empirical distribution functions is off, by Dvoretzky, Kiefer, Wolfowitz and Massart."""
    return math.sqrt(math.log(2 / level(count)) / (2 * draws))


def follows(values, cdf, count=1):
    """Whether none of `count` samples leaves a distribution, by the Kolmogorov-Smirnov test."""
    return bool(stats.kstest(np.asarray(values), cdf).pvalue > level(count))


class Ledger:
    """Adds up the false-alarm rates of a run and ends it with an error where they exceed the budget."""

    def __init__(self, config):
        self.config, self.total, self.checks = config, 0.0, 0

    def add(self, checks, total):
        self.checks, self.total = self.checks + checks, self.total + total

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """Let a report carry what its test has counted: it travels between processes."""
        report = yield
        if call.when == "call":
            report.user_properties.append(("false alarms", [len(_counted), sum(_counted)]))
            _counted.clear()
        return report

    def pytest_runtest_logreport(self, report):
        for key, value in report.user_properties:
            if key == "false alarms" and report.when == "call":
                self.add(*value)

    def pytest_terminal_summary(self, terminalreporter):
        if self.checks:
            state = "more than" if self.total > BUDGET else "of"
            terminalreporter.write_line(
                f"{self.checks} checks of random draws: "
                f"false alarms with probability {self.total:.1g} {state} {BUDGET:g}"
            )

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if self.total > BUDGET and not hasattr(self.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
