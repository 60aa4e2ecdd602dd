"""The white-box attack that questions and verdicts are about."""

import pytest

from holdfast.attacks import APGD, BIM, EOT, FGSM, PGD, EightBit, Square, Transfer
from holdfast.attacks.usual import first_gradient_attack, own_or_usual, usual
from holdfast.corruptions import Clean
from holdfast.threat import L2, Linf

FIRST, SECOND = PGD(threat=L2(0.4), steps=3), APGD(threat=Linf(0.1), steps=4)
OTHERS = [Clean(), FGSM(threat=Linf(0.2)), Square(threat=Linf(0.2)), Transfer(attack=FIRST, source="run")]


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ([*OTHERS, FIRST, SECOND], FIRST),
        ([*OTHERS, EOT(attack=SECOND)], SECOND),
        ([*OTHERS, EightBit(attack=EOT(attack=FIRST)), EightBit(attack=SECOND, repairs=0)], SECOND),
        ([EOT(attack=SECOND), FIRST], FIRST),
        ([*OTHERS, BIM(threat=Linf(0.2))], None),
        ([], None),
    ],
)
def test_the_least_wrapped_attack_that_climbs_a_loss_is_in_question(checks, expected):
    assert first_gradient_attack(checks) == expected


def test_where_no_attack_can_be_made_to_try_harder_the_usual_one_takes_the_threat_of_the_first():
    assert own_or_usual(OTHERS) == usual(Linf(0.2))
    assert own_or_usual([*OTHERS, FIRST]) == FIRST
    assert own_or_usual([Clean()]) is None
