"""Names are known without importing what they stand for; packages add names and never replace one."""

import subprocess
import sys

import pytest

from holdfast import families
from holdfast.errors import RecipeError
from holdfast.registry import Registry, instance
from tests.plugged import ATTACK, forget, install, plugged

__all__ = ["plugged"]


def test_names_are_known_before_anything_is_imported():
    code = "from holdfast.families import ALL; import sys; [*map(list, ALL.values())]; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize("family", families.ALL)
def test_every_name_stands_for_something_that_is_defined_where_it_is_registered(family):
    registry = families.ALL[family]
    for name, entry in registry.items():
        (target,) = registry.targets(name)
        kind = entry if hasattr(entry, "__module__") and target.fields is None else type(entry)
        assert target.module == kind.__module__


def test_an_instance_has_its_fields():
    registry = Registry("parts", {"half": instance("fractions:Fraction", numerator=1, denominator=2)})
    assert registry["half"] == 0.5
    assert registry["half"] is registry["half"]


def test_a_registry_is_a_mapping():
    inner = Registry("inner", {"pi": "math:pi"})
    registry = Registry("outer", {"tau": "math:tau"}, including=(inner,))
    assert list(registry) == ["pi", "tau"]
    assert len(registry) == 2
    assert "tau" in registry
    assert 1 not in registry
    assert registry.get("e") is None
    with pytest.raises(KeyError):
        registry["e"]


def test_packages_add_names_that_are_imported_when_used(plugged):
    plugged("holdfast-nudge", {"nudging": ATTACK}, {"holdfast.attacks": {"nudge": "nudging:Nudge"}})
    assert "nudge" in families.ATTACKS
    assert list(families.CHECKS).count("nudge") == 1
    assert families.CHECKS.package("nudge") == "holdfast-nudge"
    assert families.CHECKS.package("pgd") == ""
    assert "nudging" not in sys.modules
    assert families.CHECKS["nudge"].__name__ == "Nudge"


@pytest.mark.parametrize(
    ("module", "target", "message"),
    [
        ("raise OSError('no licence')", "broken:Attack", "cannot import 'broken': OSError: no licence"),
        ("raise SystemExit(3)", "broken:Attack", "cannot import 'broken': SystemExit: 3"),
        ("", "broken:Attack", "module 'broken' has no 'Attack'"),
        ("class Attack: pass", "broken:Attack", "expected a frozen dataclass"),
        ("", "broken", "expected 'package.module:Name', got 'broken'"),
        ("", "elsewhere:Attack", "cannot import 'elsewhere': ModuleNotFoundError"),
    ],
)
def test_a_broken_package_is_one_line_where_it_is_used_and_nowhere_else(plugged, module, target, message):
    plugged("holdfast-broken", {"broken": module}, {"holdfast.attacks": {"nudge": target}})
    with pytest.raises(RecipeError) as caught:
        families.ATTACKS["nudge"]
    assert message in str(caught.value)
    for part in ("attacks: 'nudge'", "package holdfast-broken", f"'{target}'"):
        assert part in str(caught.value)
    assert "nudge" not in dict(families.ATTACKS.usable())
    assert families.ATTACKS["pgd"].__name__ == "PGD"


def test_a_package_cannot_replace_a_name(plugged):
    stolen = {"clean": "nudging:Nudge", "bim": "nudging:Nudge"}
    plugged("holdfast-thief", {"nudging": ATTACK}, {"holdfast.attacks": stolen})

    families.ATTACKS._loaded.pop("bim", None)
    for registry, name in ((families.ATTACKS, "bim"), (families.CHECKS, "clean")):
        registry._loaded.pop(name, None)
        with pytest.raises(RecipeError, match=f"'{name}' is a name of holdfast's own and an entry .* holdfast-thief"):
            registry[name]
    assert families.CORRUPTIONS["clean"].__name__ == "Clean"


def test_two_packages_cannot_have_one_name(plugged):
    plugged("first", {"one": ATTACK}, {"holdfast.attacks": {"nudge": "one:Nudge"}})
    plugged("second", {"two": ATTACK}, {"holdfast.attacks": {"nudge": "two:Nudge"}})
    with pytest.raises(RecipeError, match="'nudge' is an entry point of first and of second"):
        families.ATTACKS["nudge"]


def test_what_is_not_imported_is_left_alone_where_only_that_is_wanted(plugged):
    plugged("holdfast-nudge", {"nudging": ATTACK}, {"holdfast.attacks": {"nudge": "nudging:Nudge"}})
    assert "nudge" not in dict(families.ATTACKS.usable(only_imported=True))
    assert "nudging" not in sys.modules
    assert families.ATTACKS["nudge"]
    assert "nudge" in dict(families.ATTACKS.usable(only_imported=True))


def test_the_working_directory_is_not_looked_into_for_names_of_packages(plugged, tmp_path, monkeypatch):
    (tmp_path / "here.py").write_text(ATTACK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    plugged("holdfast-here", {}, {"holdfast.attacks": {"nudge": "here:Nudge"}})
    with pytest.raises(RecipeError, match="cannot import 'here'"):
        families.ATTACKS["nudge"]
    assert sys.path[:2] == ["", str(tmp_path)]


def test_a_package_that_lies_in_the_working_directory_is_not_installed(plugged, tmp_path, monkeypatch):
    install(tmp_path, "holdfast-nudge", {"nudging": ATTACK}, {"holdfast.attacks": {"nudge": "nudging:Nudge"}})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    forget()
    assert "nudge" not in families.ATTACKS
