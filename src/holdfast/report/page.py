"""Put the page together: data, figures, then HTML through a template that escapes everything."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import polars as pl
from markupsafe import Markup

from holdfast.report import brackets, gallery
from holdfast.report.certificates import Certificates
from holdfast.report.chance import marked, other_weights
from holdfast.report.classes import class_table, panels
from holdfast.report.compare import comparison, comparison_table
from holdfast.report.composed import yield_tables
from holdfast.report.curves import budget_charts, training_charts
from holdfast.report.distances import curve_tables, distance_charts, distances_of, quartile_table
from holdfast.report.provenance import doubts, facts_table
from holdfast.report.runs import RunData
from holdfast.report.same_images import different_images, tested
from holdfast.report.sections import sections_of
from holdfast.report.summary import verdict
from holdfast.report.tables import alarm, cost, epochs, headline, training_cost, unfinished_table
from holdfast.report.trust import trust
from holdfast.report.unfinished import gaps
from holdfast.results import not_attacked, unsettled
from holdfast.show.chart import Chart
from holdfast.show.figures import figures
from holdfast.show.html import environment
from holdfast.show.numbers import decimal

EXAMPLES = 480  # in all galleries of a page together
HELD, SO_FAR, FOOLED, WRONG_BEFORE = "held", "held so far", "fooled", "wrong already before"
NOT_ATTACKED = "not attacked"


@dataclass(frozen=True)
class Picture:
    """One example of a gallery, ready for the page.

    Args:
        example: index in the test split.
        label: true class.
        before: predicted class of the original.
        after: predicted class of the changed image.
        outcome: whether the prediction held.
        distance: from the original, with its norm.
        images: data URIs of original, changed image and magnified change.
    """

    example: int
    label: str
    before: str
    after: str
    outcome: str
    distance: str
    images: tuple[str, str, str]


NAMED = 4
"""Runs whose names make a title; more are counted."""


def _subject(runs: Sequence[RunData]) -> str:
    if len(runs) <= NAMED:
        return ", ".join(run.label for run in runs)
    recipes = dict.fromkeys(
        str(run.facts.get("recipe") or run.facts["name"]).encode("utf-8", "replace").decode() for run in runs
    )
    return f"{len(runs)} runs" + (f" of {', '.join(recipes)}" if len(recipes) <= NAMED else "")


def render(runs: Sequence[RunData], *, title: str | None = None, failed: Mapping[str, str] | None = None) -> str:
    """The whole page as text."""
    labels = [run.label for run in runs]
    robustness, training = _robustness(runs, labels), figures(training_charts(runs), labels, "training")
    certificates, sections = Certificates.of(runs, labels), sections_of(runs, labels)
    of_sections = [each for section in sections for each in section.figures]
    drawn = (
        *robustness["robustness"], *robustness["distances"], *certificates.figures, *of_sections, *training,
    )  # fmt: skip
    scripts = [*([plotly_script()] if drawn else []), template_file("report.js")]
    template = environment("holdfast.report").get_template("page.html.j2")
    return template.render(
        title=title or f"Report on {_subject(runs)}",
        runs=runs,
        failed=failed or {},
        **_summary(runs),
        **robustness,
        certificates=certificates,
        sections=sections,
        training=training,
        **_training(runs),
        **_examples(runs),
        comparisons=[(result, comparison_table(result)) for result in (comparison(runs[0], run) for run in runs[1:])],
        facts=facts_table(runs),
        specs={each.identifier: each.spec for each in drawn},
        style=Markup(template_file("style.css")),
        scripts=[Markup(script) for script in scripts],
        hashes=[digest_of(script) for script in scripts],
    )


def _summary(runs: Sequence[RunData]) -> dict[str, Any]:
    """What the numbers are, whether they can be trusted, and what is missing."""
    of_runs = [sentence for run in runs for sentence in doubts(run)]
    return {
        "verdicts": [marked(verdict(run), run) for run in runs],
        "trusts": [trust(run) for run in runs],
        "headline": headline(runs),
        "cost": cost(runs),
        "unfinished": unfinished_table([gap for run in runs for gap in gaps(run)]),
        "refuted": brackets.refuted(runs),
        "doubts": [*_other_images(runs), *other_weights(runs), *of_runs],
    }


def _robustness(runs: Sequence[RunData], labels: Sequence[str]) -> dict[str, Any]:
    """Accuracy against budgets, and distances of the nearest wrong answers."""
    charts, nearest = budget_charts(runs), distances_of(runs)
    curves = distance_charts(runs, nearest)
    return {
        "yields": yield_tables(runs),
        "robustness": figures(charts, labels, "budget"),
        "hollow": _bounded(charts),
        "hollow_points": _bounded(curves),
        "distances": figures(curves, labels, "distance"),
        "curve_tables": curve_tables(runs, nearest),
        "quartiles": quartile_table(runs, nearest),
    }


def _training(runs: Sequence[RunData]) -> dict[str, Any]:
    """Epochs, what they cost, and what was alarming."""
    return {
        "epochs": [epochs(run) for run in runs if run.epochs],
        "training_cost": training_cost(runs),
        "alarms": [sentence for run in runs if (sentence := alarm(run))],
        "untrained": [run.label for run in runs if not run.epochs],
    }


def _examples(runs: Sequence[RunData]) -> dict[str, Any]:
    """Accuracies by class, and images before and after."""
    return {
        "classes": [class_table(run) for run in runs],
        "panels": panels(runs),
        "galleries": _galleries(runs),
        "without_gallery": [run.label for run in runs if not run.galleries],
    }


def _other_images(runs: Sequence[RunData]) -> list[str]:
    note = different_images([tested(run) for run in runs])
    return [f"Not all numbers are comparable. Runs {note}."] if note else []


def _bounded(charts: Sequence[Chart]) -> bool:
    """Whether one of the values is only an upper bound."""
    return any(any(curve.bounds) for chart in charts for curve in chart.curves)


def _sorted(run: RunData) -> list[gallery.Gallery]:
    """Galleries of the main weights first, then as the tables order checks."""
    order = [check.name for check in run.main_checks]
    places = {name: place for place, name in enumerate(order)}
    return sorted(
        run.galleries, key=lambda g: (g.weights != run.weights[0], places.get(g.check, len(order)), g.check, g.weights)
    )


def _galleries(runs: Sequence[RunData]) -> list[tuple[RunData, gallery.Gallery, list[Picture]]]:
    """All galleries with their pictures; the more there are, the fewer examples each shows."""
    galleries = [(run, shown) for run in runs for shown in _sorted(run)]
    limit = max(1, min(gallery.LIMIT, EXAMPLES // max(1, len(galleries))))
    return [(run, shown, _pictures(run, shown, limit)) for run, shown in galleries]


def _pictures(run: RunData, shown: gallery.Gallery, limit: int) -> list[Picture]:
    here = (pl.col("weights") == shown.weights) & (pl.col("check") == shown.check)
    open_ = run.rows.filter(here & unsettled()).select("example", not_attacked())
    states = {example: NOT_ATTACKED if missed else SO_FAR for example, missed in open_.iter_rows()}
    return [_picture(run, shown, index, states) for index in range(min(len(shown.x), limit))]


def _picture(run: RunData, shown: gallery.Gallery, index: int, states: Mapping[int, str]) -> Picture:
    label, before, after = (int(values[index]) for values in (shown.label, shown.before, shown.after))
    held = FOOLED if after != label else states.get(int(shown.example[index]), HELD)
    return Picture(
        example=int(shown.example[index]),
        label=run.class_name(label),
        before=run.class_name(before),
        after=run.class_name(after),
        outcome=held if before == label else WRONG_BEFORE,
        distance=f"{decimal(float(shown.distance[index]), 3)} in {shown.norm}",
        images=(
            gallery.png(shown.x[index]),
            gallery.png(shown.z[index]),
            gallery.png(gallery.change(shown, index)),
        ),
    )


def plotly_script() -> str:
    """The library that draws the charts."""
    from plotly.offline import get_plotlyjs

    # In a string of JavaScript the backslash changes nothing; in HTML it keeps the script from ending early.
    script: str = get_plotlyjs()
    return script.replace("\r\n", "\n").replace("</script", "<\\/script")


def template_file(name: str) -> str:
    """The text of a file beside the templates."""
    return resources.files("holdfast.report").joinpath("templates", name).read_text(encoding="utf-8")


def digest_of(script: str) -> str:
    """The digest by which the page's own policy knows its scripts: no other script may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
