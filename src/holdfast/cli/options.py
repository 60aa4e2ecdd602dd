"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RecipeFile = Annotated[Path, typer.Argument(metavar="RECIPE", help="Recipe in YAML.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a field, such as train.epochs=5.")
]
Only = Annotated[
    str | None, typer.Option("--only", metavar="NAMES", help="Run only these variants, separated by commas.")
]
Out = Annotated[Path, typer.Option("--out", help="Directory of the runs.")]
Root = Annotated[
    Path | None,
    typer.Option("--data-root", help="Directory with your data sets (default: HOLDFAST_DATA, or the user's cache)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of progress and tables.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete what is there and start over.")]
TensorBoard = Annotated[
    bool, typer.Option("--tensorboard", help="Also write TensorBoard events (needs the extra tensorboard).")
]
OUT = Path("runs")


def names(text: str | None) -> list[str]:
    """What was given with commas; nothing where nothing was given."""
    return [] if text is None else [part.strip() for part in text.split(",")]
