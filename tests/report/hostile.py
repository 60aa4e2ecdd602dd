"""Names that try to become code."""

from __future__ import annotations

import json
from pathlib import Path

from tests.report.factory import FakeCheck, make_run, noise, pgd

SCRIPT = "</script><script>window.broken=1</script>"
IMAGE = "<img src=x onerror=window.broken=1>"
QUOTE = "\"' onmouseover=window.broken=1 {{ 7*7 }} %{x} <b>&amp;"
NAMES = (SCRIPT, IMAGE, QUOTE)


def hostile_runs(path: Path) -> list[Path]:
    right = [True, False, True, True]
    checks = [
        FakeCheck("clean " + SCRIPT, "clean", {}, right),
        noise(0.1, right),
        pgd(0.1, right, norm=SCRIPT, method=IMAGE),
        pgd(0.2, right, norm="linf", method=IMAGE),
        FakeCheck(QUOTE, SCRIPT, {IMAGE: SCRIPT}, right),
    ]
    runs = []
    for number, name in enumerate(NAMES):
        run = make_run(path / str(number), checks, name=name, classes=NAMES, epochs=3, gallery=SCRIPT, recipe=SCRIPT)
        facts = json.loads((run / "run.json").read_text())
        facts["versions"] = {IMAGE: SCRIPT}
        facts["data"]["name"] = facts["model"]["name"] = facts["recipe"] = facts["variant"] = IMAGE
        (run / "run.json").write_text(json.dumps(facts))
        runs.append(run)
    return runs
