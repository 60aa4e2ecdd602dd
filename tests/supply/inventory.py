"""What an installation of the project consists of: its requirements and theirs, by the metadata that they come with."""

from __future__ import annotations

import base64
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

SHORT = 60
"""Characters of a licence's name; longer fields are its text."""

OF_THE_MACHINE = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"}
"""Files that pip writes and that depend on how a package was asked for."""


class NotInstalledError(Exception):
    """A requirement that is not installed, by name."""


@dataclass(frozen=True)
class Component:
    """One installed package.

    Args:
        name: as its authors write it.
        version: without the local part that names a build, such as `+cpu`.
        build: that part; empty for most.
        licences: expressions or names, in the order of the metadata.
        requires: canonical names of the packages that it needs here.
        files: names of its files with their SHA-256, as the installation records them.
    """

    name: str
    version: str
    build: str
    licences: tuple[str, ...]
    requires: tuple[str, ...]
    files: Mapping[str, str]

    @property
    def key(self) -> str:
        """The canonical name."""
        return canonicalize_name(self.name)

    @property
    def purl(self) -> str:
        """The package URL, which names an ecosystem and no host."""
        return f"pkg:pypi/{self.key}@{self.version}"


def requirements(extras: Sequence[str] = ()) -> list[Requirement]:
    """What pyproject.toml asks for: the default install, and that of extras."""
    project = project_table()
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return [Requirement(line) for line in lines]


def project_table() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def of_project() -> Component:
    """The project itself; its files are those of the checkout, which have no recorded hashes."""
    project, needed = project_table(), requirements()
    names = tuple(sorted(canonicalize_name(requirement.name) for requirement in needed))
    return Component(project["name"], project["version"], "", (project["license"],), names, {})


def closure(roots: Iterable[Requirement]) -> dict[str, Component]:
    """Every package that these requirements need on this machine, by canonical name and in its order.

    Raises:
        NotInstalledError: if one is missing.
    """
    components: dict[str, Component] = {}
    extras: dict[str, set[str]] = {}
    waiting = list(roots)
    while waiting:
        requirement = waiting.pop()
        key = canonicalize_name(requirement.name)
        new = requirement.extras - extras.get(key, set())
        if key in components and not new:
            continue
        extras[key] = extras.get(key, set()) | requirement.extras
        installed = _installed(requirement.name)
        needed = list(_needed(installed, extras[key]))
        components[key] = _component(installed, needed)
        waiting += needed
    return dict(sorted(components.items()))


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise NotInstalledError(name) from None


def _needed(installed: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """Requirements of a package whose markers hold here."""
    for line in installed.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _component(installed: Distribution, needed: Iterable[Requirement]) -> Component:
    version, _, build = installed.version.partition("+")
    name = installed.metadata["Name"]
    names = {canonicalize_name(requirement.name) for requirement in needed} - {canonicalize_name(name)}
    return Component(name, version, build, _licences(installed), tuple(sorted(names)), _hashes(installed))


def _licences(installed: Distribution) -> tuple[str, ...]:
    """The licence expression, else the name in one line, else the classifiers."""
    if expression := installed.metadata.get("License-Expression"):
        return (expression,)
    text = (installed.metadata.get("License") or "").strip()
    if text and len(text) <= SHORT and "\n" not in text and text != "UNKNOWN":
        return (text,)
    stated = [line for line in installed.metadata.get_all("Classifier") or () if line.startswith("License ::")]
    return tuple(dict.fromkeys(line.rpartition(" :: ")[2] for line in stated if line.count(" :: ") > 1))


def _hashes(installed: Distribution) -> dict[str, str]:
    """SHA-256 of the package's files in hexadecimal, without those that only this machine has."""
    hashes = {}
    for file in installed.files or ():
        if file.hash is None or file.hash.mode != "sha256" or file.parts[0] == ".." or file.name in OF_THE_MACHINE:
            continue
        padded = file.hash.value + "=" * (-len(file.hash.value) % 4)
        hashes[str(file)] = base64.urlsafe_b64decode(padded).hex()
    return dict(sorted(hashes.items()))


def pins(path: Path = ROOT / "constraints.txt") -> dict[str, str]:
    """Versions of constraints.txt by canonical name."""
    lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pinned = {}
    for line in filter(None, lines):
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)", line)
        if match is None:
            raise ValueError(f"{path.name}: expected NAME==VERSION; got {line!r}")
        pinned[canonicalize_name(match[1])] = match[2]
    return pinned
