from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from holdfast.report import write_report
from holdfast.show.figures import plain
from tests.report.hostile import NAMES, hostile_runs
from tests.report.reading import Read, read


@pytest.fixture(name="page")
def _page(tmp_path: Path) -> Read:
    return read(write_report(hostile_runs(tmp_path), tmp_path / "report.html", title=NAMES[0]))


def test_names_never_become_elements_or_attributes(page: Read) -> None:
    assert sum(tag == "script" for tag, _ in page.elements) == 3  # figures, plotly, the page's own
    assert all((a["src"] or "").startswith("data:image/png") for tag, a in page.elements if tag == "img")
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_they_are(page: Read, name: str) -> None:
    assert name in page.text


def test_plotly_gets_no_tags(page: Read) -> None:
    assert "<" not in page.scripts[0]
    names = [trace["name"] for spec in page.specs.values() for trace in spec["data"]]
    titles = [spec["layout"]["xaxis"]["title"]["text"] for spec in page.specs.values()]
    assert names
    assert not [text for text in (*names, *titles) if "<" in text or ">" in text]
    assert plain("<b>&amp;") == "&lt;b&gt;&amp;amp;"


def test_templates_do_not_change_what_plotly_calculates(page: Read) -> None:
    templates = {trace["hovertemplate"] for spec in page.specs.values() for trace in spec["data"]}
    values = ("%{y:.1%} %{text}", "%{y:.1%}", "%{y:.4g}")
    plane = "%{fullData.name}<br>clean %{x:.1%}, attacked %{y:.1%}<br>%{text}<extra></extra>"
    assert templates == {plane, *(f"%{{fullData.name}}<br>{value} at %{{x}}<extra></extra>" for value in values)}


def test_only_the_known_scripts_may_run(page: Read) -> None:
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy") or ""
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in page.scripts[1:]]
    assert all(f"'sha256-{digest}'" in policy for digest in digests)
    assert policy.startswith("default-src 'none'")
    script_rule = next(rule for rule in policy.split(";") if "script-src" in rule)
    assert "unsafe" not in script_rule


def test_lone_surrogates_can_be_written(tmp_path: Path) -> None:
    from tests.report.factory import FakeCheck, make_run

    run = make_run(tmp_path / "run", [FakeCheck("clean", correct=[True])], facts={"name": "\ud800", "recipe": "\ud800"})
    assert write_report([run], tmp_path / "report.html").exists()


def test_control_characters_are_written_out_on_the_page_and_in_figures(tmp_path: Path) -> None:
    from tests.report.factory import FakeCheck, make_run, pgd

    odd, shown = "cat\u202egnp\x1b[2J\u200b", "cat\\u202egnp\\x1b[2J\\u200b"
    checks = [FakeCheck(f"clean {odd}", "clean", {}, [True, False]), pgd(0.1, [True, False]), pgd(0.2, [False, False])]
    runs = [make_run(tmp_path / str(n), checks, name=f"{odd} {n}", classes=(odd, "dog"), epochs=2) for n in range(2)]
    page = read(write_report(runs, tmp_path / "report.html", title=odd))
    specs = json.dumps(list(page.specs.values()), ensure_ascii=False)
    assert not set("\u202e\x1b\u200b") & set(page.text + specs)
    assert shown in page.text
    assert json.dumps(shown)[1:-1] in specs
