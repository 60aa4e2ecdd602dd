"""The report: run directories in, one self-contained HTML file out. Reads results, never a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast import files
from holdfast.errors import LedgerError
from holdfast.report.page import render
from holdfast.report.runs import RunData, read_run, read_runs

__all__ = ["RunData", "read_run", "read_runs", "render", "write_report"]


def write_report(
    runs: Sequence[Path], out: Path, *, title: str | None = None, failed: Mapping[str, str] | None = None
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
    if out.is_dir():
        raise LedgerError(f"{out}: expected the name of a file to write the report to, got a directory")
    # JSON may hold lone surrogates, which UTF-8 cannot.
    page = render(read_runs(runs), title=title, failed=failed).encode("utf-8", "replace")
    with files.replacing(out) as file:
        file.write(page)
    return out
