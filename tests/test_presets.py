import pytest

from holdfast.attacks import PGD
from holdfast.checks import CHECKS
from holdfast.corruptions import Clean
from holdfast.errors import RecipeError
from holdfast.evaluation import evaluate
from holdfast.presets import PRESETS, preset
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


def test_stronger_checks_of_a_preset_are_stronger():
    x, y = digits()
    table = evaluate(digits_cnn(), x[:100], y[:100], "quick").table
    clean, *_, fgsm, pgd = table["accuracy"]
    assert clean > fgsm >= pgd
