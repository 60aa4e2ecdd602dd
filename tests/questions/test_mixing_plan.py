import json
import math

import pytest

from holdfast.questions.mixing.summary import AROUND_POLICY, CLEAN, POLICY, Plan, Try, grid_with, planned, written


def test_a_grid_has_both_ends_and_rises():
    assert grid_with((4, 1, 4), 2) == (0, 1, 2, 4, math.inf)


def test_every_mixture_is_aimed_at_once_and_few_at_other_radii():
    plan = Plan(strengths=(0.0, 1.0, math.inf), eps=0.1, radii=(0.05, 0.1, 0.2), at=1.0, adaptive=True)
    main = [Try(0.1, aim) for aim in (0.0, 1.0, math.inf, POLICY, AROUND_POLICY)]
    assert plan.tries[:6] == (CLEAN, *main)
    assert plan.tries[6:] == tuple(Try(eps, one.aim) for eps in (0.05, 0.2) for one in main)
    assert [plan.place(mixture) for mixture in plan.mixtures] == [0, 1, 2, 3]
    alone = Plan(strengths=(0.0, 1.0, math.inf), eps=0.1, radii=(0.2,))
    assert alone.tries[4:] == (Try(0.2, 0.0), Try(0.2, math.inf))  # infinity is the chosen one too


def test_a_plan_survives_json():
    plan = Plan(strengths=(0.0, 10**-0.5, 10**3.5, math.inf), eps=0.1, radii=(0.2,), at=10**-0.5, adaptive=True)
    text = json.dumps(plan.settings(), allow_nan=False)
    assert planned(json.loads(text)) == plan
    assert plan.settings()["strengths"][-1] == "inf"


def test_strengths_are_written_short():
    assert [written(value) for value in (0.0, 10**-0.5, 10**3.5, math.inf, "policy")] == [
        "0", "0.316", "3162", "∞", "policy",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"strengths": (0.0, 1.0)}, "with 0, inf and infinity"),
        ({"strengths": (1.0, math.inf)}, "rising strengths with 0"),
        ({"strengths": (0.0, math.inf, 1.0)}, "rising strengths"),
        ({"strengths": (0.0, math.inf), "at": 1.0}, "with 0, 1 and infinity"),
        ({"strengths": (0.0, math.inf), "eps": 0.0}, "positive and finite"),
        ({"strengths": (0.0, math.inf), "radii": (math.inf,)}, "positive and finite"),
    ],
)
def test_bad_plans_get_one_line(fields, words):
    with pytest.raises(ValueError, match=words):
        Plan(**{"eps": 0.1, **fields})
