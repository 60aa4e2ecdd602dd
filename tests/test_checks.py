from holdfast.attacks import ATTACKS, PGD
from holdfast.certify import CERTIFIERS, Margin
from holdfast.checks import CHECKS, is_attack, is_certifier
from holdfast.corruptions import CORRUPTIONS, Clean
from holdfast.threat import Linf


def test_a_check_is_a_corruption_an_attack_or_a_certifier():
    for check, attack, certifier in (
        (PGD(threat=Linf(0.1)), True, False), (Clean(), False, False), (Margin(constant=1.0), False, True),
    ):  # fmt: skip
        assert (is_attack(check), is_certifier(check)) == (attack, certifier)
    assert CHECKS.keys() == ATTACKS.keys() | CORRUPTIONS.keys() | CERTIFIERS.keys() | {"stored", "transfer"}
    assert len(CHECKS) == len(ATTACKS) + len(CORRUPTIONS) + len(CERTIFIERS) + 2
