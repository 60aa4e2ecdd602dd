"""The page of a search: what was found, how, and what pruning saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast import files
from holdfast.search.figures import STATES, ordered, parameter_text, search_figures, value_text
from holdfast.search.findings import Findings, TrialRecord
from holdfast.search.plots import BAND, Savings, savings
from holdfast.show.items import Choice, Code, Details, Item, Note
from holdfast.show.numbers import count, decimal, percent, several
from holdfast.show.page import Section, render_page
from holdfast.show.table import Cell, Table

SHOWN = 10
"""Trials that count as the best few."""

TOO_GOOD = (
    "The best of many trials on the same images looks better there than it is. Train the best recipe again with other "
    "seeds, and report what the test images say of those runs."
)
ON_TEST = (
    "An objective was measured on test images. Numbers of the best trials on these images are too good to report; "
    "measure on others."
)
OF_SAVINGS = (
    "The time without pruning is predicted: every epoch that was left out takes as long as those of its trial that "
    "ran. Checks after training are not counted."
)
OF_FRONT = "No other trial is as good as one on the front in everything and better in something."
OF_HISTORY = "Values of complete trials in the order of their numbers, and the best so far."
OF_IMPORTANCE = (
    "Share of each range in what tells better trials from others (PED-ANOVA). With a few dozen trials only the order "
    "of the first few means something."
)
OF_SLICES = "All complete trials over one range, whatever their other values."
OF_CONTOURS = (
    "Linear between complete trials and empty outside of them; the other ranges are as they came. Blue is better."
)
OF_SENSITIVITY = (
    f"Scores over one range, of the complete trials that lie within {100 * BAND:.0f} % of the best one in every other "
    "range. For more points, fix the others in the recipe and search over one."
)
NOT_SENSITIVE = (
    "No other complete trial lies close enough to the best one in all ranges but one. Fix the others in the recipe and "
    "search over one."
)
REPEAT = "Save a recipe as recipe.yaml, then train and check it with"


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
    return render_page(f"Search {findings.name}", sections_of(findings, recipes), kicker="Search")


def sections_of(findings: Findings, recipes: Sequence[str]) -> Iterator[Section]:
    """Tables and charts of a search in their order."""
    groups = search_figures(findings)

    def charts(name: str, sentence: str, missing: str = "") -> list[Item]:
        drawn = groups[name]
        return [sentence, *drawn] if drawn else [Note(missing, "missing")] if missing else []

    importance = charts("importance", OF_IMPORTANCE, "There are too few complete trials to tell.")
    if groups["importance"]:
        importance.append(importance_table(findings))
    trials = Choice([(name, [table]) for name, table in trial_panels(findings)])
    texts = [
        Details(f"Recipe of trial {trial.number:04d}", [Code(text)])
        for trial, text in zip(findings.best, recipes, strict=True)
    ]
    shown: dict[str, tuple[str, list[Item]]] = {
        "summary": ("Summary", [*summary(findings)]),
        "savings": ("What pruning saved", [*saved(findings)]),
        "front": ("Pareto front", charts("front", OF_FRONT)),
        "history": ("History", charts("history", OF_HISTORY)),
        "epochs": ("Epoch by epoch", charts("epochs", "What the pruner saw. Trials that it gave up are grey.")),
        "importance": ("Importance", importance),
        "slices": ("One range at a time", charts("slices", OF_SLICES)),
        "contours": ("Two ranges at a time", charts("contours", OF_CONTOURS)),
        "sensitivity": ("Sensitivity", charts("sensitivity", OF_SENSITIVITY, NOT_SENSITIVE)),
        "trials": ("Trials", [trials]),
        "recipes": ("Recipes", [REPEAT, Code("holdfast run recipe.yaml"), *texts]),
    }
    for name, (title, items) in shown.items():
        yield Section.of(name, title, items, numbers="trials")


def overview(findings: Findings) -> Iterator[Item]:
    """What a search came to: the best trials, and what pruning saved where it gave up any."""
    yield from summary(findings)
    if findings.count("pruned"):
        yield from saved(findings)


def summary(findings: Findings) -> Iterator[Item]:
    """How many trials ended how, and the best of them."""
    yield _lead(findings)
    if findings.best:
        yield best_table(findings)
    yield Note(TOO_GOOD)
    if any(goal.split == "test" for goal in findings.goals):
        yield Note(ON_TEST, "doubt", "Check this.")


def saved(findings: Findings) -> Iterator[Item]:
    """What pruning saved."""
    yield from (Note(OF_SAVINGS), savings_table(savings(findings)))


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
    """Values and ranges of the front, or of the best few trials."""
    goals = [goal.label for goal in findings.goals]
    if len(goals) > 1:
        shown = list(findings.best)
        caption = "Pareto front: trials that no other beats in everything, and their values."
    else:
        shown = sorted(findings.complete, key=lambda trial: trial.values[0], reverse=findings.goals[0].maximize)[:SHOWN]
        caption = f"Best {len(shown)} of {several(len(findings.trials), 'trial')}, and their values."
    rows = [
        (
            f"Trial {trial.number:04d}",
            [
                *(Cell(value_text(value, goal)) for value, goal in zip(trial.values, findings.goals, strict=True)),
                *(Cell(parameter_text(findings.value(trial, path))) for path in findings.ranges),
                Cell(f"{trial.epochs} of {trial.planned}"),
            ],
        )
        for trial in shown
    ]
    return Table(caption, "Trial", (*goals, *findings.labels.values(), "Epochs"), rows)


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
    return Table("Trials by number, which is also the name of their directory.", "Trial", columns, rows, style="tall")


def _lead(findings: Findings) -> str:
    states = ("complete", "pruned", "failed", "lost", "running", "waiting")
    ends = ", ".join(f"{count(findings.count(s))} {STATES.get(s, s)}" for s in states if findings.count(s))
    aims = "; ".join(f"{'largest' if goal.maximize else 'smallest'} {goal.label}" for goal in findings.goals)
    return f"Looked for: {aims}. {count(len(findings.trials))} trials: {ends}."


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"
