"""Perturbed images for the user: from the parts that an evaluation kept to PNG files and one archive."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import files
from holdfast.errors import LedgerError, RecipeError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from holdfast.data.dataset import Split
    from holdfast.evaluation.subject import Subject
    from holdfast.results.ledger import Ledger

NOTE = "attack.json"
"""What the images of a directory are."""

PICTURES = re.compile(r"\d{6,}-label-.*-predicted-.*-(original|perturbed|difference-x[\d.]+)\.png")


@dataclass(frozen=True)
class Part:
    """The examples of one block.

    Args:
        rows: of the ledger, with the prediction before as `before`.
        file: where their perturbed images are.
        split: where their clean images are.
    """

    rows: pl.DataFrame
    file: Path
    split: Split

    def images(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Clean and perturbed images, (n, C, H, W)."""
        import torch

        from holdfast.evaluation.points import read_points

        places = {example: place for place, example in enumerate(self.split.index.tolist())}
        x, _ = self.split.batch(torch.tensor([places[example] for example in self.rows["example"]]))
        try:
            z = read_points(self.file, x.shape[1:])
        except LedgerError as error:
            raise LedgerError(f"{error}; delete its directory") from None
        if len(z) != len(x):
            raise LedgerError(f"{self.file}: expected {len(x)} perturbed images, got {len(z)}; delete its directory")
        return x.numpy().astype(z.dtype), z


def read_parts(points: Ledger, ledger: Ledger, subject: Subject, check: str, split: Split) -> list[Part]:
    """What a check left for these weights, block after block; the run's ledger knows the predictions before."""
    import polars as pl

    mine = (pl.col("weights") == subject.weights) & (pl.col("weights_hash") == subject.hash[:12])
    clean = ledger.read().filter(mine & (pl.col("method") == "clean"))
    before = clean.select("example", before="prediction").unique("example")
    chosen = {path: points.part(path.stem).filter(mine & (pl.col("check") == check)) for path in points.parts()}
    return [
        Part(rows.join(before, on="example", how="left", maintain_order="left"), path.with_suffix(".npy"), split)
        for path, rows in chosen.items()
        if len(rows)
    ]


def write_npz(parts: Sequence[Part], out: Path, about: str) -> None:
    """One archive of all arrays; images go there block by block, so that they need not fit in memory together."""
    import numpy as np
    import polars as pl

    from holdfast.results.summaries import unsettled

    rows = pl.concat([part.rows for part in parts]).with_columns(waiting=unsettled())
    small = {
        "label": rows["label"].to_numpy(),
        "prediction_before": rows["before"].fill_null(-1).to_numpy(),
        "prediction_after": rows["prediction"].to_numpy(),
        "example": rows["example"].to_numpy(),
        "distance": rows["distance"].to_numpy(),
        "norm": np.asarray(rows["norm"][0]),
        "broken": ~rows["correct"].to_numpy(),
        "waiting": rows["waiting"].to_numpy(),
        "attack": np.asarray(about),
    }

    with files.replacing(out) as whole, zipfile.ZipFile(whole, "w") as archive:
        for name, array in small.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
        for name, number in (("x", 0), ("z", 1)):
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                for start, part in enumerate(parts):
                    images = np.ascontiguousarray(part.images()[number])
                    if start == 0:
                        header = np.lib.format.header_data_from_array_1_0(images)
                        shape = (len(rows), *images.shape[1:])
                        np.lib.format.write_array_header_1_0(file, {**header, "shape": shape})
                    file.write(images.tobytes())


def refuse_directory(path: Path, about: str) -> None:
    """Refuse a directory with anything else in it than images of the same attack."""
    if path.exists() and not path.is_dir():
        raise RecipeError(f"--save-images: expected a directory; {path} is a file")
    names = [file.name for file in path.iterdir() if not files.TEMPORARY.fullmatch(file.name)] if path.is_dir() else []
    others = [name for name in names if not PICTURES.fullmatch(name)]
    if names and not (others == [NOTE] and files.read_regular(path / NOTE, error=RecipeError) == about.encode()):
        raise RecipeError(f"--save-images: expected an empty or new directory; {path} holds other files")


def write_images(parts: Sequence[Part], out: Path, about: str, classes: Sequence[str]) -> int:
    """Original, perturbed image and magnified change of every example as PNG; returns how many examples."""
    import numpy as np

    from holdfast.report.gallery import magnification, magnified, picture_of

    refuse_directory(out, about)
    out.mkdir(parents=True, exist_ok=True)
    for file in out.glob("*.png"):
        file.unlink()
    with files.replacing(out / NOTE) as note:
        note.write(about.encode())
    largest = max(float(np.abs(z - x).max(initial=0.0)) for x, z in (part.images() for part in parts))
    factor = magnification(largest)
    for name, x, z in _named(parts, classes):
        picture_of(x).save(out / f"{name}-original.png")
        picture_of(z).save(out / f"{name}-perturbed.png")
        picture_of(magnified(x, z, factor)).save(out / f"{name}-difference-x{factor:g}.png")
    return sum(len(part.rows) for part in parts)


def _named(parts: Sequence[Part], classes: Sequence[str]) -> Iterator[tuple[str, Any, Any]]:
    """Images of each example with a name that tells index, label and prediction under attack."""
    for part in parts:
        numbers = part.rows.select("example", "label", "prediction").iter_rows()
        for (example, label, prediction), x, z in zip(numbers, *part.images(), strict=True):
            yield f"{example:06d}-label-{_word(classes, label)}-predicted-{_word(classes, prediction)}", x, z


def _word(classes: Sequence[str], index: int) -> str:
    """Name of a class as part of a file's name."""
    return re.sub(r"[^\w.+]+", "_", classes[index])[:40] if 0 <= index < len(classes) else str(index)


def about_attack(check: Any, subject: Subject, data: str) -> str:
    """What images are, as JSON: the attack with all its fields, the weights and the data."""
    from holdfast.checks import Check
    from holdfast.recipe.plain import describe

    method, label, params = describe(check, Check)
    fields = {"attack": label, "method": method, "params": json.loads(params)}
    return json.dumps({**fields, "weights_sha256": subject.hash, "data": data}, indent=2, sort_keys=True)
