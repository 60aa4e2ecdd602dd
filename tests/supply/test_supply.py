"""Every package of an installation is pinned, and the bill of materials names them all."""

import dataclasses
import json
import re
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement

from tests.supply.__main__ import main
from tests.supply.inventory import (
    ROOT,
    Component,
    NotInstalledError,
    closure,
    of_project,
    pins,
    project_table,
    requirements,
)
from tests.supply.sbom import bill, licence_list

EXTRAS = ["default", *project_table()["optional-dependencies"]]


def installed(extra):
    """What an extra installs beside the default; the test is skipped where it is not installed."""
    try:
        return closure(requirements([] if extra == "default" else [extra]))
    except NotInstalledError as error:
        pytest.skip(f"{error} is not installed")


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_package_of_an_installation_is_pinned(extra):
    missing = sorted(set(installed(extra)) - set(pins()))
    assert not missing, f"add to constraints.txt: {', '.join(missing)}"


def test_pins_are_sorted_unique_and_what_the_project_asks_for():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert len(lines) == len(pins())
    assert lines == sorted(lines, key=str.lower)
    for requirement in requirements(EXTRAS[1:]):
        pinned = pins().get(re.sub(r"[-_.]+", "-", requirement.name).lower())
        assert pinned is None or requirement.specifier.contains(pinned), f"{requirement} but {pinned}"


@pytest.mark.parametrize("extra", [None, "dev", "browser", "tensorboard", "oracles"])
def test_what_the_makefile_installs_is_pinned_by_name(extra):
    named = requirements([extra] if extra else [])
    assert {re.sub(r"[-_.]+", "-", one.name).lower() for one in named} <= set(pins())


def test_the_closure_follows_requirements_of_requirements_and_their_markers():
    components = closure([Requirement("lightning-fabric")])
    assert {"torch", "sympy", "mpmath", "packaging"} <= set(components)
    assert "lightning-fabric" not in components["torch"].requires
    assert "colorama" not in components  # of Windows
    with_extra = closure([Requirement("fsspec[http]")])
    assert "aiohttp" in with_extra
    assert "aiohttp" not in closure([Requirement("fsspec")])
    with pytest.raises(NotInstalledError, match="no-such-package"):
        closure([Requirement("no-such-package")])


FILES = ["constraints.txt", "requirements-oracles.txt", "pyproject.toml", "Makefile"]


@pytest.mark.parametrize("name", FILES)
def test_no_file_that_installs_names_a_registry(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|--trusted-host", text)


def test_there_is_no_lock_file_that_would_name_registries():
    names = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "conda-lock.yml"}
    assert not [name for name in names if (ROOT / name).exists()]


def project():
    return Component("Toy", "1.0", "", ("Apache-2.0",), ("b-c",), {})


COMPONENTS = {
    "a": Component("A", "2", "cpu", ("BSD License", "MIT License"), (), {"a.py": 64 * "0"}),
    "b-c": Component("B_c", "3.1", "", ("Apache-2.0 AND MIT",), ("a",), {}),
    "d": Component("d", "4", "", ("odd | <b>",), (), {}),
    "e": Component("e", "5", "", (), (), {}),
}


def test_a_bill_by_hand():
    one = bill(project(), COMPONENTS)
    assert one["components"][0] == {
        "type": "library",
        "bom-ref": "a@2",
        "name": "A",
        "version": "2+cpu",
        "purl": "pkg:pypi/a@2",
        "licenses": [{"license": {"name": "BSD License"}}, {"license": {"id": "MIT"}}],
        "properties": [{
            "name": "holdfast:files:sha256",
            # printf '000...0  a.py\n' | sha256sum
            "value": "daf24b259b79102959571af28c0bbbcf543691458aa0af81aff81ff06c50f025",
        }],
    }  # fmt: skip
    assert one["components"][1]["licenses"] == [{"expression": "Apache-2.0 AND MIT"}]
    assert one["components"][2]["licenses"] == [{"license": {"name": "odd | <b>"}}]
    assert "licenses" not in one["components"][3]
    assert one["dependencies"] == [
        {"ref": "toy@1.0", "dependsOn": ["b-c@3.1"]},
        {"ref": "a@2", "dependsOn": []},
        {"ref": "b-c@3.1", "dependsOn": ["a@2"]},
        {"ref": "d@4", "dependsOn": []},
        {"ref": "e@5", "dependsOn": []},
    ]


def test_equal_installations_have_equal_bills_and_others_another_serial_number():
    one, other = bill(project(), COMPONENTS), bill(project(), COMPONENTS)
    assert json.dumps(one) == json.dumps(other)
    changed = {**COMPONENTS, "e": dataclasses.replace(COMPONENTS["e"], version="6")}
    assert bill(project(), changed)["serialNumber"] != one["serialNumber"]


def test_the_bill_of_this_installation_has_what_the_format_requires():
    components = closure(requirements())
    one = bill(of_project(), components)
    assert (one["bomFormat"], one["specVersion"], one["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", one["serialNumber"])
    assert "timestamp" not in one["metadata"]
    everything = [one["metadata"]["component"], *one["components"]]
    assert len(everything) == len(components) + 1
    references = [each["bom-ref"] for each in everything]
    assert len(set(references)) == len(references)
    for each in everything:
        assert each["type"] in ("application", "library")
        assert each["version"]
        assert re.fullmatch(r"pkg:pypi/[a-z0-9]([a-z0-9-]*[a-z0-9])?@[0-9A-Za-z.]+", each["purl"])
        assert all(len(choice) == 1 and set(choice) <= {"license", "expression"} for choice in each["licenses"])
        assert not any("expression" in choice for choice in each["licenses"]) or len(each["licenses"]) == 1
        for file in each.get("properties", ()):
            assert re.fullmatch("[0-9a-f]{64}", file["value"])
    assert {entry["ref"] for entry in one["dependencies"]} == set(references)
    assert {name for entry in one["dependencies"] for name in entry["dependsOn"]} <= set(references)
    assert "torch@" + distribution("torch").version.partition("+")[0] in one["dependencies"][0]["dependsOn"]


def test_the_licence_list_has_a_row_for_every_package_and_no_markup_of_others():
    lines = licence_list(project(), COMPONENTS).splitlines()
    assert lines[0] == "# Licences of Toy 1.0 and what it installs"
    assert lines[4:] == [
        "| Toy | 1.0 | Apache-2.0 |",
        "| A | 2+cpu | BSD License; MIT License |",
        "| B_c | 3.1 | Apache-2.0 AND MIT |",
        r"| d | 4 | odd \| \<b\> |",
        "| e | 5 | not stated |",
    ]


def test_the_command_writes_the_same_files_twice_and_needs_no_network(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("socket.socket.connect", None)
    for name in ("one", "two"):
        main(tmp_path / name)
    for file in ("sbom.cdx.json", "licences.md"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert capsys.readouterr().out.count("packages") == 4


def test_the_command_says_what_is_missing(tmp_path, monkeypatch):
    def missing(roots):
        raise NotInstalledError("torch")

    monkeypatch.setattr("tests.supply.__main__.closure", missing)
    with pytest.raises(
        SystemExit, match=r"^sbom: torch is not installed; run `pip install -c constraints\.txt -e \.` first"
    ):
        main(tmp_path)
    assert not any(tmp_path.iterdir())
