"""Imports point one way: a unit of the package knows only the units before it, function-level imports included."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

SOURCE = Path(holdfast.__file__).parent

# The list of the design, with statistics before results (which gives intervals).
ORDER = [
    "errors",
    "registry",
    "budget",
    "halving",
    "files",
    "json_text",
    "records",
    "facts",
    "arrays",
    "wav",
    "yaml_text",
    "thrift",
    "parquet",
    "rng",
    "types",
    "families",
    "promises",
    "statistics",
    "resampling",
    "traits",
    "earlier",
    "crossing",
    "hierarchy",
    "results",
    "threat",
    "losses",
    "gradients",
    "modes",
    "wrappers",
    "backward",
    "frequency",
    "data",
    "corruptions",
    "augment",
    "lipschitz",
    "models",
    "ensembles",
    "attacks",
    "certify",
    "objectives",
    "optim",
    "checks",
    "presets",
    "show",
    "theory",
    "questions",
    "trust",
    "report",
    "recipe",
    "runs",
    "training",
    "evaluation",
    "conduct",
    "search",
    "testing",
    "cli",
]


def unit(file):
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(file):
    """(line, module) of every import in a file, whatever function or condition it stands in; relative ones resolved."""
    package = ("holdfast", *file.relative_to(SOURCE).parts[:-1])
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            below = module == "holdfast"
            yield from ((node.lineno, f"holdfast.{alias.name}" if below else module) for alias in node.names)


def sources():
    return sorted(file for file in SOURCE.rglob("*.py") if file.parent != SOURCE or not file.name.startswith("__"))


def test_every_unit_of_the_package_has_its_place_in_the_order():
    assert {unit(file) for file in sources()} <= set(ORDER)


@pytest.mark.parametrize("file", sources(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_only_from_units_before_its_own(file):
    allowed = {*ORDER[: ORDER.index(unit(file)) + 1]} if unit(file) in ORDER else set(ORDER)
    for line, module in imported(file):
        parts = module.split(".")
        assert parts != ["holdfast"], f"{file}:{line}: the package itself knows everybody; import from a unit"
        if parts[0] == "holdfast":
            assert parts[1] in allowed, f"{file}:{line}: {unit(file)} must not import {parts[1]}"


def test_the_documented_order_is_the_one_that_is_tested():
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    quoted = " ".join(line[2:] for line in text.splitlines() if line.startswith("> "))
    assert [name.strip() for name in quoted.replace("→", ",").split(",")] == ORDER


def test_nothing_but_the_entry_point_imports_the_command_line():
    for file in SOURCE.rglob("*.py"):
        if unit(file) not in ("cli", "__main__"):
            assert not [module for _, module in imported(file) if module.startswith("holdfast.cli")], file


def test_the_report_never_imports_torch():
    for file in (SOURCE / "report").rglob("*.py"):
        assert not [module for _, module in imported(file) if module.split(".")[0] == "torch"], file


def loaded_after(statement):
    """Top-level modules in `sys.modules` of a fresh interpreter after a statement."""
    code = f"{statement}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("statement", ["import holdfast", "import holdfast.report", "import holdfast.cli"])
def test_starts_without_torch(statement):
    # Measured, not asserted: `import holdfast, torch` takes as long as `import torch` within the noise (six runs each,
    # busy machine, fastest 2.0 and 2.1 s); the first use of `holdfast.evaluate` adds about 0.4 s.
    assert "torch" not in loaded_after(statement)
    assert "torch" in loaded_after("import holdfast; holdfast.PGD")
