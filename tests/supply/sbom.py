"""A software bill of materials in CycloneDX JSON, and a list of licences, of what an installation consists of."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from tests.supply.inventory import Component

PLAIN = {
    "Apache 2.0": "Apache-2.0",
    "MIT License": "MIT",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
}
"""SPDX identifiers of names that mean one licence; others, such as "BSD License", stay names."""


def bill(project: Component, components: Mapping[str, Component]) -> dict[str, Any]:
    """The bill: equal installations have equal bills, without a time stamp and in a fixed order."""
    everything = {project.key: project, **components}
    text: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", **_described(project)},
            "properties": _properties({
                "holdfast:python": platform.python_version(),
                "holdfast:platform": f"{platform.system()} {platform.machine()}",
            }),
        },
        "components": [{"type": "library", **_described(one)} for one in components.values()],
        "dependencies": [
            {"ref": _reference(one), "dependsOn": [_reference(everything[key]) for key in one.requires]}
            for one in everything.values()
        ],
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(text, sort_keys=True).encode()).digest()
    return {**text, "serialNumber": f"urn:uuid:{uuid.UUID(bytes=digest[:16], version=5)}"}


def licence_list(project: Component, components: Mapping[str, Component]) -> str:
    """A Markdown table: who is installed under which licence."""
    rows = [("Package", "Version", "Licence"), ("---", "---", "---")]
    for one in (project, *components.values()):
        rows.append((one.name, _version(one), "; ".join(one.licences) or "not stated"))
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    heading = f"# Licences of {project.name} {project.version} and what it installs"
    return "\n".join([heading, "", *lines, ""])


def _described(one: Component) -> dict[str, Any]:
    facts: dict[str, Any] = {"bom-ref": _reference(one), "name": one.name, "version": _version(one), "purl": one.purl}
    if one.licences:
        facts["licenses"] = _licences(one.licences)
    if one.files:
        facts["properties"] = _properties({"holdfast:files:sha256": _digest(one.files)})
    return facts


def _licences(names: Iterable[str]) -> list[dict[str, Any]]:
    """One expression, or names and identifiers."""
    names = [PLAIN.get(name, name) for name in names]
    try:
        (expression,) = names
        return [{"expression": str(canonicalize_license_expression(expression))}]
    except (ValueError, InvalidLicenseExpression):
        return [{"license": {"id": name} if name in PLAIN.values() else {"name": name}} for name in names]


def _digest(files: Mapping[str, str]) -> str:
    """One hash for all files, by the output of `sha256sum` on them in order; installers keep none of the archive."""
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in files.items()).encode()).hexdigest()


def _properties(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in sorted(values.items())]


def _reference(one: Component) -> str:
    return f"{one.key}@{one.version}"


def _version(one: Component) -> str:
    return f"{one.version}+{one.build}" if one.build else one.version


def _cell(text: str) -> str:
    """Text that cannot end a cell or start a tag."""
    return re.sub(r"([\\|<>`])", r"\\\1", " ".join(text.split()))
