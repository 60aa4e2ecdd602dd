"""The results of a search, for people and for machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.screen import say, stdout

if TYPE_CHECKING:
    from holdfast.search.findings import Findings


def record(findings: Findings, directory: Path, files: dict[str, Any]) -> dict[str, Any]:
    """For machines."""
    from holdfast.search.plots import savings

    saved = savings(findings)
    return {
        "name": findings.name,
        "path": str(directory),
        "objective": [
            {"label": goal.label, "direction": "maximize" if goal.maximize else "minimize"} for goal in findings.goals
        ],
        "best": [trial.number for trial in findings.best],
        "trials": [
            {
                "number": trial.number,
                "state": trial.state,
                "parameters": {path: findings.value(trial, path) for path in trial.drawn},
                "values": list(trial.values) or None,
                "epochs": trial.epochs,
                "seconds": trial.seconds,
                "scores": dict(trial.scores or {}),
                "error": trial.error,
            }
            for trial in findings.trials
        ],
        "importance": [dict(one) for one in findings.importance],
        "savings": {
            "pruned_seconds": saved.pruned,
            "full_seconds": saved.full,
            "gain": saved.gain,
            "equivalent_trials": saved.equivalent,
            "best_trial": saved.best,
        },
        **files,
    }


def show(findings: Findings, directory: Path, files: dict[str, Any]) -> None:
    """For people."""
    from holdfast.search.page import overview
    from holdfast.show.terminal import draw

    draw(overview(findings), stdout())
    for trial in findings.trials:
        if trial.state == "failed":
            say(f"trial {trial.number} failed: {trial.error}")
    if findings.count("running"):
        say(f"{findings.count('running')} trials are under way elsewhere; repeat the command when they have ended")
    for recipe in files["recipes"]:
        say(f"recipe: {recipe}")
    say(f"report: {files['report']}")
