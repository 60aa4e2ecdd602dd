"""Spoken digits: train small networks on raw waveforms, add noise, attack them, and listen to what changed.

`python examples/spoken_digits.py` needs free_spoken_digits_8khz.npz in the data root (`--data-root`, or HOLDFAST_DATA)
and about a minute on one thread. It runs a shorter form of recipes/spoken_digits.yaml and leaves a report with the
waveforms drawn, and WAV files of a few recordings before and after each check. `--variants standard` is one network.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

import holdfast
from holdfast.conduct import Finished, Record, Reported
from holdfast.report.gallery import read_galleries
from holdfast.report.sounds import write_sounds

RECIPE = Path(__file__).parent.parent / "recipes" / "spoken_digits.yaml"
RATE = 8000  # samples per second


def accuracies(run: Path) -> pl.DataFrame:
    """The share of recordings that a run gets right, and how far they were moved, by check."""
    rows = holdfast.load_run(run).ledger
    return rows.group_by("check", maintain_order=True).agg(
        accuracy=pl.col("correct").mean().round(3), distance=pl.col("distance").median().round(5), norm=pl.first("norm")
    )


def listen(run: Path, out: Path) -> None:
    """Write a few recordings before and after each check."""
    written = write_sounds(read_galleries(run / "gallery"), out, RATE)
    print(f"{len(written)} sounds in {out}, such as {written[-2].name}")


def show(record: Record, out: Path) -> None:
    """The results of a finished run."""
    if isinstance(record, Finished):
        print(f"\n{record.job.name}")
        with pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_rows=-1, fmt_str_lengths=40):
            print(accuracies(record.job.run.path))
        listen(record.job.run.path, out / "sounds" / record.job.name.replace("/", "-"))
    elif isinstance(record, Reported):
        print(f"\nreport: {record.path}")


def main() -> None:
    """Train, check, report and write sounds."""
    parser = argparse.ArgumentParser(description="Train on spoken digits, attack, and write WAV files.")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--recordings", type=int, default=200, help="how many to test on")
    parser.add_argument("--variants", nargs="*", default=["standard", "new-speaker", "noisy"])
    options = parser.parse_args()
    shorter = [f"train.epochs={options.epochs}", f"data.test_subset={options.recordings}", "data.validation=0"]
    shorter += ["evaluate.gallery=2"]
    recipes = holdfast.load_recipes(RECIPE, shorter, only=options.variants)
    for record in holdfast.run(recipes, out=options.out, data_root=options.data_root):
        show(record, options.out)


if __name__ == "__main__":
    main()
