"""Packages that are installed for the length of a test: their entry points are found, their modules can be imported."""

import sys

import pytest

from holdfast import families
from holdfast.recipe.strict import _entry, _foreign_entry
from holdfast.registry import installed

ATTACK = '''
from dataclasses import dataclass
from typing import ClassVar

from holdfast.traits import Access
from holdfast.types import Threat


@dataclass(frozen=True, kw_only=True)
class Nudge:
    """Add a little grey to every image."""

    access: ClassVar = Access.NOTHING
    thorough: ClassVar = False

    threat: Threat
    share: float = 0.5

    def __call__(self, model, x, y, *, target=None, rng=None):
        return self.threat.project(x + self.share * self.threat.eps * (0.5 - x), x)
'''


def install(place, package, modules, entry_points):
    """Write a package as an installer leaves it.

    Args:
        place: a directory of packages.
        package: its name.
        modules: source by name of the module.
        entry_points: by group, `name = module:Attribute` by name.
    """
    for name, source in modules.items():
        (place / f"{name}.py").write_text(source)
    facts = place / f"{package.replace('-', '_')}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    sections = [[f"[{group}]", *(f"{k} = {v}" for k, v in points.items())] for group, points in entry_points.items()]
    (facts / "entry_points.txt").write_text("\n".join("\n".join(lines) for lines in sections))


def forget():
    """Look at packages anew."""
    for cached in (installed, _entry, _foreign_entry):
        cached.cache_clear()


@pytest.fixture
def plugged(tmp_path, monkeypatch):
    """A function that installs packages for this test, and the directory that they are in as its attribute `place`."""
    place, modules = tmp_path / "packages", set(sys.modules)
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    registries = [each for each in vars(families).values() if isinstance(each, families.Registry)]
    loaded = [dict(each._loaded) for each in registries]

    def add(package, modules, entry_points):
        install(place, package, modules, entry_points)
        forget()

    add.place = place
    yield add
    for name in set(sys.modules) - modules:
        if str(place) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    for registry, before in zip(registries, loaded, strict=True):
        registry._loaded.clear()
        registry._loaded.update(before)
    forget()
