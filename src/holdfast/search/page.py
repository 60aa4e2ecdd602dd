"""The page of a search: what was found, how, and what pruning saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from holdfast import files
from holdfast.report.page import digest_of, plotly_script, template_file
from holdfast.search.figures import STATES, ordered, parameter_text, search_figures, value_text
from holdfast.search.findings import Findings, TrialRecord
from holdfast.search.plots import BAND, Savings, savings
from holdfast.show.html import environment
from holdfast.show.numbers import count, decimal, percent
from holdfast.show.table import Cell, Table


def write_search(findings: Findings, out: Path, recipes: Sequence[str]) -> Path:
    """Write one self-contained HTML page on a search.

    Args:
        findings: what the search yielded.
        out: the file to write.
        recipes: texts of the best recipes.

    Returns:
        `out`.
    """
    page = render(findings, recipes).encode("utf-8", "replace")
    with files.replacing(out) as file:
        file.write(page)
    return out


def render(findings: Findings, recipes: Sequence[str]) -> str:
    """The whole page as text."""
    groups = search_figures(findings)
    figures = [one for group in groups.values() for one in group]
    scripts = [plotly_script(), template_file("report.js")]
    return (
        environment("holdfast.report")
        .get_template("search.html.j2")
        .render(
            title=f"Search {findings.name}",
            lead=_lead(findings),
            best=[best_table(findings)] if findings.best else [],
            savings=savings_table(savings(findings)),
            importance=importance_table(findings),
            groups=groups,
            panels=trial_panels(findings),
            recipes=list(zip(findings.best, recipes, strict=True)),
            on_test=any(goal.split == "test" for goal in findings.goals),
            band=f"{100 * BAND:.0f}",
            specs={one.identifier: one.spec for one in figures},
            style=Markup(template_file("style.css")),
            scripts=[Markup(script) for script in scripts],
            hashes=[digest_of(script) for script in scripts],
        )
    )


def savings_table(saved: Savings) -> Table:
    """The paper's table 7."""
    rows = [
        ("Training as it was, pruned", [Cell(_duration(saved.pruned))]),
        ("Predicted training without pruning", [Cell(_duration(saved.full))]),
        ("Speed gain", [Cell(f"× {saved.gain:.2f}")]),
        ("Equivalent trials without pruning", [Cell(decimal(saved.equivalent, 2))]),
    ]
    if saved.best is not None:
        rows.append((f"Best trial of {saved.trials}, counted from 0", [Cell(str(saved.best))]))
    return Table(f"What pruning saved, over {count(saved.trials)} trials.", "Quantity", ("This search",), rows)


def best_table(findings: Findings) -> Table:
    """Values and scores of the best trials."""
    goals = [goal.label for goal in findings.goals]
    rows = [
        (
            f"Trial {trial.number:04d}",
            [
                *(Cell(value_text(value, goal)) for value, goal in zip(trial.values, findings.goals, strict=True)),
                *(Cell(parameter_text(findings.value(trial, path))) for path in findings.ranges),
            ],
        )
        for trial in findings.best
    ]
    front = "Trials that no other beats in everything, and their values."
    caption = "The best trial, and its values." if len(goals) == 1 else front
    return Table(caption, "Trial", (*goals, *findings.labels.values()), rows)


def importance_table(findings: Findings) -> Table:
    """Share of each range for each goal."""
    rows = [
        (
            findings.labels[path],
            [Cell(percent(shares[path]) if path in shares else "") for shares in findings.importance],
        )
        for path in ordered(findings)
    ]
    return Table("Share of each range.", "Range", [goal.label for goal in findings.goals], rows)


def trial_panels(findings: Findings) -> list[tuple[str, Table]]:
    """Tables of trials: all, and those of each end."""
    panels = [(f"All {count(len(findings.trials))} trials", _trials(findings, findings.trials))]
    for state, words in STATES.items():
        some = [trial for trial in findings.trials if trial.state == state]
        if some and len(some) < len(findings.trials):
            panels.append((f"{words.capitalize()}: {count(len(some))}", _trials(findings, some)))
    return panels


def _trials(findings: Findings, trials: Sequence[TrialRecord]) -> Table:
    rows, ranges = [], findings.ranges
    for trial in trials:
        values = [Cell(value_text(*pair)) for pair in zip(trial.values, findings.goals, strict=False)]
        values = values or [Cell("") for _ in findings.goals]
        drawn = [Cell(parameter_text(findings.value(trial, path)) if path in trial.drawn else "") for path in ranges]
        state = Cell(STATES.get(trial.state, trial.state), note=trial.error or "", words=True)
        spent = [Cell(f"{trial.epochs} of {trial.planned}"), Cell(decimal(trial.seconds))]
        rows.append((f"{trial.number:04d}", [*values, *drawn, *spent, state]))
    columns = (*(goal.label for goal in findings.goals), *findings.labels.values(), "Epochs", "Seconds", "End")
    return Table("Trials by number, which is also the name of their directory.", "Trial", columns, rows)


def _lead(findings: Findings) -> str:
    states = ("complete", "pruned", "failed", "lost", "running", "waiting")
    ends = ", ".join(f"{count(findings.count(s))} {STATES.get(s, s)}" for s in states if findings.count(s))
    aims = "; ".join(f"{'largest' if goal.maximize else 'smallest'} {goal.label}" for goal in findings.goals)
    return f"Looked for: {aims}. {count(len(findings.trials))} trials: {ends}."


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"
