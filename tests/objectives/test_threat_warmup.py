"""A threat that grows: which budgets are scaled, which lengths with them, and who remembers what."""

from dataclasses import replace

import pytest
import torch

from holdfast.attacks import PGD, Targeted
from holdfast.objectives import AWP, CURE, FOAR, LLR, MART, MMA, SOAR, TRADES, Adversarial, Fast, Free, Standard
from holdfast.objectives.threat_warmup import has_growing_threat, warmup_share, with_budget_share
from holdfast.threat import L0, L1, L2, Linf
from holdfast.types import Objective

LINF = Linf(8 / 255)


@pytest.mark.parametrize(
    "objective",
    [TRADES(threat=LINF), MART(threat=L2(0.5)), MMA(threat=LINF), Fast(threat=L1(3.0)), Free(threat=LINF),
     SOAR(threat=LINF), FOAR(threat=LINF), LLR(threat=LINF)],
    ids=lambda objective: type(objective).__name__,
)  # fmt: skip
def test_every_threat_is_scaled_and_nothing_else(objective: Objective) -> None:
    scaled = with_budget_share(objective, 0.25)
    assert scaled.threat.eps == 0.25 * objective.threat.eps  # type: ignore[attr-defined]
    changes = {"threat": objective.threat}  # type: ignore[attr-defined]
    if isinstance(objective, MMA):
        assert scaled.least == 0.25 * objective.least  # type: ignore[attr-defined]
        changes["least"] = objective.least  # type: ignore[assignment]
    assert replace(scaled, **changes) == objective  # type: ignore[type-var]


def test_a_stated_step_size_keeps_its_ratio_to_the_radius() -> None:
    scaled = with_budget_share(TRADES(threat=LINF, step_size=0.01), 0.5)
    assert scaled.step_size == 0.005  # type: ignore[attr-defined]


def test_threats_of_attacks_inside_attacks_and_objectives_inside_objectives_are_scaled() -> None:
    attack = Targeted(attack=PGD(threat=LINF, steps=3, step_size=0.02))
    scaled = with_budget_share(AWP(objective=Adversarial(attack=attack)), 0.5)
    inner = scaled.objective.attack.attack  # type: ignore[attr-defined]
    assert (inner.threat.eps, inner.step_size) == (4 / 255, 0.01)


def test_a_count_of_values_never_falls_below_one() -> None:
    attack = PGD(threat=Linf(0.1), steps=1)
    objective = Adversarial(attack=attack)
    assert with_budget_share(objective, 1e-6).attack.threat.eps == pytest.approx(1e-7)  # type: ignore[attr-defined]
    from holdfast.objectives.threat_warmup import _with_share

    assert [_with_share(L0(10), share).eps for share in (0.01, 0.11, 1.0)] == [1, 2, 10]


def test_the_rise_is_linear_and_ends_with_the_last_step_of_the_warm_up() -> None:
    shares = [warmup_share(0.5, step, 8) for step in range(8)]
    assert shares == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert warmup_share(0.0, 0, 8) == 1.0


def test_only_objectives_with_a_threat_can_grow() -> None:
    assert has_growing_threat(TRADES(threat=LINF))
    assert has_growing_threat(AWP(objective=Adversarial()))
    assert not has_growing_threat(Standard())
    assert not has_growing_threat(CURE())


def test_a_perturbed_objective_at_work_passes_new_settings_to_the_one_inside() -> None:
    objective = AWP(objective=Fast(threat=LINF))
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    started = objective.hooks.start(model, 2, torch.arange(3))
    started.objective = with_budget_share(objective, 0.5)
    assert started.inner.objective.threat == Linf(4 / 255)  # type: ignore[union-attr]
    started = AWP(objective=FOAR(threat=LINF)).hooks.start(model, 2, torch.arange(3))
    started.objective = with_budget_share(AWP(objective=FOAR(threat=LINF)), 0.5)
    assert started.inner.threat == Linf(4 / 255)  # type: ignore[union-attr]
