import pytest

from holdfast.attacks import ATTACKS, PGD
from holdfast.certify import CERTIFIERS, Margin
from holdfast.checks import CHECKS, PRESETS, is_attack, is_certifier, preset
from holdfast.corruptions import CORRUPTIONS, Clean
from holdfast.errors import RecipeError
from holdfast.evaluation import evaluate
from holdfast.threat import Linf
from tests.zoo import digits, digits_cnn


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_starts_with_the_clean_images_and_names_every_check_once(name):
    checks = preset(name)
    assert checks[0] == Clean()
    assert len({repr(check) for check in checks}) == len(checks)
    assert all(type(check) in CHECKS.values() for check in checks)


def test_presets_grow():
    sizes = [len(preset(name)) for name in ("quick", "standard", "full")]
    assert sizes == sorted(set(sizes))


def test_measuring_presets_let_lost_examples_leave():
    attacks = [check for name in PRESETS for check in preset(name) if isinstance(check, PGD)]
    assert attacks
    assert all(attack.until_lost and attack.random_start for attack in attacks)


def test_an_unknown_preset_lists_the_known_ones_and_suggests_the_nearest():
    with pytest.raises(RecipeError, match=r"'quik'; known: .*common, full, quick, standard\. Did you mean 'quick'\?"):
        preset("quik")


def test_a_check_is_a_corruption_an_attack_or_a_certifier():
    for check, attack, certifier in (
        (PGD(threat=Linf(0.1)), True, False), (Clean(), False, False), (Margin(constant=1.0), False, True),
    ):  # fmt: skip
        assert (is_attack(check), is_certifier(check)) == (attack, certifier)
    assert CHECKS.keys() == ATTACKS.keys() | CORRUPTIONS.keys() | CERTIFIERS.keys() | {"stored", "transfer"}
    assert len(CHECKS) == len(ATTACKS) + len(CORRUPTIONS) + len(CERTIFIERS) + 2


def test_stronger_checks_of_a_preset_are_stronger():
    x, y = digits()
    table = evaluate(digits_cnn(), x[:100], y[:100], "quick").table
    clean, *_, fgsm, pgd = table["accuracy"]
    assert clean > fgsm >= pgd
