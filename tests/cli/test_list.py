"""`holdfast list` is for a terminal."""

import re

import pytest

from holdfast.cli.list import FAMILIES, _describe, _names, plain_text


@pytest.mark.parametrize("family", FAMILIES)
def test_no_source_code_of_latex_is_shown(family):
    for name, entry in _names(family).items():
        about = _describe(entry)["about"]
        assert about, name
        assert not re.search(r"\\|\$|:math:|`|_\{|\^\{|\b[bB]ig+[lr]?\b|bigr|\w(theta|sigma|alpha)\b", about), about
        assert about.count("(") == about.count(")"), about


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            r":math:`\max_i |z_i - x_i| \le \epsilon` and :math:`0 \le z_i \le 1`.",
            "max_i |z_i - x_i| <= eps and 0 <= z_i <= 1.",
        ),
        (r":math:`\|z - x\|_2 \le \epsilon`.", "||z - x||_2 <= eps."),
        (r":math:`\#\{i : z_i \ne x_i\} \le \epsilon`.", "#{i : z_i != x_i} <= eps."),
        (r":math:`\mathrm{CE}(x) + w\,\mathrm{CE}(\tilde x)`, two passes.", "CE(x) + w CE(x_tilde), two passes."),
        (r":math:`r = -\bar L_M / (\sqrt2 K)`", "r = -L_bar_M / (sqrt(2) K)"),
        (r":math:`w \frac1N \sum_i \|q(x_i)\|_2`", "w 1/N sum_i ||q(x_i)||_2"),
        (r":math:`2^{-\lfloor 4p \rfloor}`: halved", "2^(-floor(4p)): halved"),
        (r":math:`\sqrt{\sigma_c^2 + \sigma_1^2}`", "sqrt(sigma_c^2 + sigma_1^2)"),
        (r":math:`\bigl(\|q\| \cos\theta\bigr)`", "(||q|| cos theta)"),
        (r":math:`\left|x\right| \rightarrow 0`", "|x| rightarrow 0"),
        (r"A certificate in :math:`\ell_2`.", "A certificate in l2."),
        ("Nothing to change in feature_dim {here}.", "Nothing to change in feature_dim {here}."),
    ],
)
def test_mathematics_reads_as_text(line, shown):
    assert plain_text(line) == shown
