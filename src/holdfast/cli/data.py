"""`holdfast data`: see, fetch and pack data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.groups import Grey, Size
from holdfast.cli.options import Json, Root
from holdfast.cli.output import echo, echo_json
from holdfast.errors import DataError
from holdfast.show.text import one_line

if TYPE_CHECKING:
    from holdfast.data.dataset import Dataset, Split

app = typer.Typer(name="data", help="See, fetch and pack data sets.", no_args_is_help=True)

What = Annotated[str, typer.Argument(metavar="NAME_OR_PATH", help="Data set, image folder or .npz file.")]


@app.command("list")
def list_(data_root: Root = None, as_json: Json = False) -> None:
    """List the known data sets and where they are."""
    rows = _catalogue(data_root)
    if as_json:
        echo_json(rows, indent=2)
        return
    _show(
        ("name", "where", "fetch, MB"),
        [(row["name"], row["place"] or "-", _megabytes(row["download"])) for row in rows],
    )


@app.command()
def info(what: What, data_root: Root = None, as_json: Json = False) -> None:
    """Read a data set and describe it."""
    from holdfast.data.roots import resolve

    facts = _facts(resolve(what, data_root)(data_root))
    if as_json:
        echo_json(facts, indent=2)
        return
    _show(("", ""), [(key, _line(key, value)) for key, value in facts.items()])


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Data set; see `holdfast data list`.")],
    data_root: Root = None,
    as_json: Json = False,
) -> None:
    """Download a data set; repeat the command to resume."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from holdfast.data import fetch as transfer
    from holdfast.data.roots import data_root as place

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    files: dict[str, int] = {}
    with Bar(*columns, console=Console(stderr=True), disable=as_json) as bar:
        tasks: dict[str, Any] = {}
        for step in transfer(name, data_root):
            if step.file not in tasks:
                tasks[step.file] = bar.add_task(step.file, total=step.total)
            bar.update(tasks[step.file], completed=step.done)
            files[step.file] = step.done
    directory = str(place(data_root) / name)
    if as_json:
        echo_json({"name": name, "place": directory, "files": files})
    else:
        echo(f"{name}: {directory}")


@app.command()
def make(
    out: Annotated[Path, typer.Argument(metavar="OUT.npz", help="File to write.")],
    source: Annotated[str, typer.Option("--from", metavar="NAME_OR_PATH", help="What to read.")],
    subset: Annotated[int | None, typer.Option(help="Images to take of each split; a smaller one stays whole.")] = None,
    size: Size = None,
    grey: Grey = False,
    seed: Annotated[int, typer.Option(help="Which images the subset takes.")] = 0,
    data_root: Root = None,
    as_json: Json = False,
) -> None:
    """Write any data set as one .npz file, for instance an image folder resized once."""
    from holdfast.data.npz import write_npz
    from holdfast.data.roots import resolve

    dataset = resolve(source, data_root, size=size, grey=grey)(data_root)
    if subset is not None:
        dataset = _cut(dataset, subset, seed)
    write_npz(dataset, out)
    counts = {"train": 0 if dataset.train is None else len(dataset.train), "test": len(dataset.test)}
    text = f"{out}: {counts['train']} to train, {counts['test']} to test"
    if as_json:
        echo_json({"file": str(out), **counts})
    else:
        echo(text)


def _cut(dataset: Dataset, n: int, seed: int) -> Dataset:
    from dataclasses import replace

    from holdfast.data.dataset import subset

    def cut(split: Split) -> Split:
        return subset(split, min(n, len(split)), seed)

    return replace(dataset, train=None if dataset.train is None else cut(dataset.train), test=cut(dataset.test))


def _catalogue(root: Path | None) -> list[dict[str, Any]]:
    """Name, place (None when not here) and bytes to download (None when it cannot be fetched) of each data set."""
    from holdfast.data.files import FILES
    from holdfast.data.roots import data_root
    from holdfast.families import DATASETS

    rows: list[dict[str, Any]] = []
    for name, source in DATASETS.usable():
        if not isinstance(source, type):
            size = sum(file.size for file in FILES[name]) if name in FILES else None
            rows.append({"name": name, "place": _place(source, root), "download": size})
    for file in sorted(data_root(root).glob("*.npz")):
        if file.stem not in DATASETS:
            rows.append({"name": file.stem, "place": str(file), "download": None})
    return rows


def _place(source: Any, root: Path | None) -> str | None:
    if not hasattr(source, "find"):
        return "built in"
    try:
        return str(source.find(root))
    except DataError:
        return None


def _facts(dataset: Dataset) -> dict[str, Any]:
    import torch

    from holdfast.data.dataset import channel_statistics

    mean, std = channel_statistics(dataset.test if dataset.train is None else dataset.train)
    facts: dict[str, Any] = {"name": dataset.name, "shape": dataset.shape, "classes": dataset.classes}
    for part, split in (("train", dataset.train), ("test", dataset.test)):
        facts[part] = 0 if split is None else len(split)
        if split is not None:
            facts[f"{part} per class"] = torch.bincount(split.y, minlength=len(dataset.classes)).tolist()
    return facts | {"mean": mean, "std": std, "fingerprint": dataset.fingerprint()}


def _line(key: str, value: Any) -> str:
    if key.endswith("per class"):
        fewest, most = min(value), max(value)
        return str(most) if fewest == most else f"{fewest} to {most}"
    if isinstance(value, list | tuple):
        return ", ".join(f"{item:z.4f}" if isinstance(item, float) else str(item) for item in value)
    return str(value)


def _megabytes(size: int | None) -> str:
    return "-" if size is None else f"{size / 1e6:.1f}"


def _show(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Column, Table

    from holdfast.cli.screen import stdout

    table = Table(*(Column(name, overflow="fold") for name in header), box=None, show_header=any(header))
    for row in rows:
        table.add_row(*map(one_line, row))
    stdout().print(table)
