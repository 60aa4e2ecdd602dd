"""Linear regression with irrelevant frequencies under gradient descent, momentum, signGD, Adam and RMSProp."""

from holdfast.theory.linear_dynamics.descent import descend, sampled_moments
from holdfast.theory.linear_dynamics.optimisers import GD, Adam, Momentum, Optimiser, RMSProp, SignGD
from holdfast.theory.linear_dynamics.predictions import predicted_shift, risk_ratio, signgd_is_less_robust
from holdfast.theory.linear_dynamics.problem import (
    Problem,
    adversarial_risk,
    dct_basis,
    gd_limit,
    gd_weights,
    standard_risk,
    thesis_problem,
    thesis_start,
    vector,
)
from holdfast.theory.linear_dynamics.signs import arrival, moving_steps, observed_shift

__all__ = [
    "GD",
    "Adam",
    "Momentum",
    "Optimiser",
    "Problem",
    "RMSProp",
    "SignGD",
    "adversarial_risk",
    "arrival",
    "dct_basis",
    "descend",
    "gd_limit",
    "gd_weights",
    "moving_steps",
    "observed_shift",
    "predicted_shift",
    "risk_ratio",
    "sampled_moments",
    "signgd_is_less_robust",
    "standard_risk",
    "thesis_problem",
    "thesis_start",
    "vector",
]
