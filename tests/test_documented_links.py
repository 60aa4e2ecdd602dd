"""Every link between pages of the documentation leads to a page and a heading that exist."""

import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page):
    """What headings are called in addresses, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKS = [
    pytest.param(page, target, id=f"{page.name}: {target}")
    for page in PAGES
    for target in LINK.findall(page.read_text(encoding="utf-8"))
    if not target.startswith(("http:", "https:", "mailto:"))
]


@pytest.mark.parametrize(("page", "target"), LINKS)
def test_a_link_leads_somewhere(page, target):
    file, _, anchor = target.partition("#")
    goal = (page.parent / file).resolve() if file else page
    assert goal.exists(), f"{page.name} links to {file}, which does not exist"
    if anchor:
        assert anchor in anchors(goal), f"{page.name} links to #{anchor}, which is no heading of {goal.name}"


def test_the_architecture_page_lists_units_in_the_order_of_imports():
    from tests.test_imports import ORDER

    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    quoted = " ".join(line.removeprefix("> ") for line in page.splitlines() if line.startswith("> "))
    units = [unit for unit in re.split(r"[,→\s]+", quoted) if unit]
    places = [ORDER.index(unit) for unit in units]
    assert len(units) == len(set(units)) > 30
    assert sorted(places, key=places.index) == places
    steps = [[ORDER.index(unit) for unit in re.split(r",\s*", step.strip())] for step in quoted.split("→")]
    assert all(max(one) < min(other) for one, other in itertools.pairwise(steps))
