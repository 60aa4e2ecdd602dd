"""`holdfast corrupt`: corrupted copies of a test set, to keep or to share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import files
from holdfast.cli.groups import Grey, Size, Subset, grouped
from holdfast.cli.options import Json, Root
from holdfast.cli.output import echo, echo_json
from holdfast.cli.screen import resumable
from holdfast.errors import RecipeError, unknown
from holdfast.json_text import parse_json_object
from holdfast.show.progress import Bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from holdfast.data.dataset import Dataset

FORMATS = ("npz", "folder", "npy")
BLOCK = 256  # images corrupted at a time
FACTS = "corruptions.json"  # what the directory holds


@dataclass(frozen=True, kw_only=True)
class CorruptionOptions:
    """Which corruptions are written, and how."""

    family: Annotated[str, typer.Option("--family", help="common, or bar (C-bar, for validation).")] = "common"
    kinds: Annotated[str, typer.Option("--kinds", help="Kinds to write, or a set: standard, extra, all.")] = "standard"
    severities: Annotated[str, typer.Option("--severities", help="Severities to write, from 1 to 5.")] = "1,2,3,4,5"
    form: Annotated[
        str, typer.Option("--format", help="npz or folder (one for each kind and severity), or npy (CIFAR-10-C).")
    ] = "npz"
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed.")] = 0


@grouped
@resumable()
def command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Data set, image folder or .npz file.")],
    out: Annotated[Path, typer.Option("--out", help="Directory to write to.")],
    options: CorruptionOptions,
    size: Size = None, grey: Grey = False, subset: Subset = None, data_root: Root = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Write corrupted copies of a data set's test images; repeat the command to resume."""
    from holdfast.data.dataset import subset as cut
    from holdfast.data.roots import resolve

    chosen, levels = _kinds(options.family, options.kinds), _severities(options.severities)
    family, form, seed = options.family, options.form, options.seed
    if form not in FORMATS:
        raise RecipeError(f"--format: {unknown(form, FORMATS)}")
    if form == "npy" and levels != (1, 2, 3, 4, 5):
        raise RecipeError(f"--severities: expected all five beside --format npy, got {options.severities}")
    dataset = resolve(data, data_root, size=size, grey=grey)(data_root)
    if subset is not None:
        from dataclasses import replace

        dataset = replace(dataset, test=cut(dataset.test, min(subset, len(dataset.test)), seed))
    facts = {
        "data": dataset.name, "fingerprint": dataset.fingerprint(), "images": len(dataset.test), "family": family,
        "format": form, "seed": seed,
    }  # fmt: skip
    _claim(out, facts)
    with Bar(quiet=as_json).stage(f"corrupt {dataset.name}", "kinds x severities") as show:
        for number, (kind, severity) in enumerate(_write(dataset, out, family, chosen, levels, form, seed), 1):
            show(number, len(chosen) * len(levels), f"{kind} {severity}")
    if as_json:
        echo_json({"out": str(out), "kinds": chosen, "severities": levels, **facts})
    else:
        made = f"{len(chosen)} kinds x {len(levels)} severities of {len(dataset.test)} images"
        echo(f"{out}: {made}, as {form}")


def _claim(out: Path, facts: dict[str, Any]) -> None:
    """Take a directory for corruptions of these images, or go on in it; others would mix with what is there."""
    file = out / FACTS
    if file.exists():
        recorded = _facts(file)
        if changed := [name for name, value in facts.items() if recorded.get(name) != value]:
            raise RecipeError(f"{out}: holds corruptions of another {', '.join(changed)}; choose another --out")
    elif out.exists() and any(out.iterdir()):
        raise RecipeError(f"{out}: expected a new or empty directory, or one that `holdfast corrupt` began")
    with files.replacing(file) as whole:
        whole.write((json.dumps(facts, indent=1) + "\n").encode())


def _facts(file: Path) -> dict[str, Any]:
    try:
        return parse_json_object(files.read_regular(file, error=RecipeError))
    except ValueError as error:
        raise RecipeError(f"{file}: expected what `holdfast corrupt` wrote; {error}; choose another --out") from None


def _write(
    dataset: Dataset, out: Path, family: str, kinds: tuple[str, ...], severities: tuple[int, ...], form: str, seed: int
) -> Iterator[tuple[str, int]]:
    """Write what is not there yet, one file or directory after the other, each whole or not at all."""
    import numpy as np
    import torch

    from holdfast.data.npz import write_npz

    if form == "npy":
        _write_npy(out / "labels.npy", np.tile(dataset.test.y.numpy(), len(severities)))
    for kind in kinds:
        if form == "npy":
            if not (out / f"{kind}.npy").exists():
                copies = [_images(dataset, family, kind, severity, seed) for severity in severities]
                stacked = torch.cat(copies).permute(0, 2, 3, 1).contiguous().numpy()
                _write_npy(out / f"{kind}.npy", stacked)
            yield from ((kind, severity) for severity in severities)
            continue
        for severity in severities:
            place = out / f"{kind}-{severity}{'.npz' if form == 'npz' else ''}"
            if not place.exists():
                made = _with_images(dataset, _images(dataset, family, kind, severity, seed), f"{kind}-{severity}")
                if form == "npz":
                    write_npz(made, place)
                else:
                    _write_folder(made, place)
            yield kind, severity


def _images(dataset: Dataset, family: str, kind: str, severity: int, seed: int) -> Tensor:
    """All test images corrupted, in eight bits; an image's randomness is that of its index."""
    import torch

    from holdfast.families import CORRUPTIONS
    from holdfast.rng import Streams

    corruption: Any = CORRUPTIONS[family]
    method, test, parts = corruption(kind=kind, severity=severity), dataset.test, []
    for start in range(0, len(test), BLOCK):
        x, _ = test.batch(slice(start, start + BLOCK))
        z = method(x, rng=Streams(seed, f"{kind} {severity}", test.index[start : start + BLOCK]))
        parts.append(z.mul(255).round_().to(torch.uint8))
    return torch.cat(parts)


def _with_images(dataset: Dataset, x: Tensor, name: str) -> Dataset:
    from dataclasses import replace

    return replace(dataset, name=f"{dataset.name}-{name}", train=None, test=replace(dataset.test, x=x))


def _write_folder(dataset: Dataset, place: Path) -> None:
    """Images as PNG files, a directory for each class; under another name until all are there."""
    import shutil

    from holdfast.report.gallery import picture_of

    half = place.with_name(f".{place.name}.part")
    shutil.rmtree(half, ignore_errors=True)
    names = files.safe_names(dataset.classes)
    for name in names:
        (half / name).mkdir(parents=True)
    test = dataset.test
    for image, label, index in zip(test.x, test.y.tolist(), test.index.tolist(), strict=True):
        picture_of(image.numpy() / 255).save(half / names[label] / f"{index:06d}.png")
    half.rename(place)


def _write_npy(path: Path, array: Any) -> None:
    import numpy as np

    with files.replacing(path) as file:
        np.save(file, array, allow_pickle=False)


def _kinds(family: str, text: str) -> tuple[str, ...]:
    from holdfast.corruptions.bar.tables import KINDS
    from holdfast.corruptions.common.tables import EXTRA, STANDARD

    families = {"common": (*STANDARD, *EXTRA), "bar": KINDS}
    if family not in families:
        raise RecipeError(f"--family: {unknown(family, families)}")
    sets = {"all": families[family], "standard": STANDARD if family == "common" else KINDS}
    sets |= {"extra": EXTRA} if family == "common" else {}
    if text in sets:
        return tuple(sets[text])
    chosen = tuple(dict.fromkeys(text.split(",")))
    for kind in chosen:
        if kind not in families[family]:
            raise RecipeError(f"--kinds: {unknown(kind, (*families[family], *sets))}")
    return chosen


def _severities(text: str) -> tuple[int, ...]:
    try:
        chosen = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        chosen = ()
    if not chosen or not set(chosen) <= set(range(1, 6)):
        raise RecipeError(f"--severities: expected numbers from 1 to 5, such as 1,3,5; got {text!r}")
    return chosen
