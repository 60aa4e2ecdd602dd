"""The report: run directories in, one self-contained HTML file out. Reads results, never a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast import files
from holdfast.errors import LedgerError
from holdfast.questions.answers import Store
from holdfast.report.page import render, render_answers
from holdfast.report.runs import RunData, read_answers, read_run, read_runs
from holdfast.results.ledger import Ledger

__all__ = ["RunData", "read_run", "read_runs", "render", "write_own_report", "write_report"]


def write_report(
    runs: Sequence[Path | str], out: Path | str, *, title: str | None = None, failed: Mapping[str, str] | None = None
) -> Path:
    """Write one HTML page on one run, or on several side by side; the first is the one others are compared with.

    The file needs no network, holds no date of its own, and is equal to the bit for equal input.

    Args:
        runs: run directories, each with `run.json` and `ledger/`.
        out: the file to write.
        title: heading of the page; made from the names of the runs when None.
        failed: runs that could not be finished, by name, with the reason.

    Returns:
        `out`.

    Raises:
        LedgerError: a run directory is missing, incomplete or damaged.
    """
    page = Path(out)
    if page.is_dir():
        raise LedgerError(f"{page}: expected the name of a file to write the report to, got a directory")
    return _write(render(read_runs([Path(run) for run in runs]), title=title, failed=failed), page)


def write_own_report(run: Path) -> Path:
    """Write the report on a run into its directory; of one that has answers and no results of checks, a page on these.

    Raises:
        LedgerError: if it has neither, or is incomplete or damaged.
    """
    out = run / "report.html"
    if Ledger(run / "ledger").parts() or not Store(run).read_all():
        return write_report([run], out)
    return _write(render_answers(read_answers(run)), out)


def _write(page: str, out: Path) -> Path:
    with files.replacing(out) as file:
        file.write(page.encode("utf-8", "replace"))  # JSON may hold lone surrogates, which UTF-8 cannot
    return out
