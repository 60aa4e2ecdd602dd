"""`holdfast analyse surface`: the loss on planes through images."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.analyse.asking import about, asking
from holdfast.cli.networks import Ready
from holdfast.cli.output import echo
from holdfast.cli.screen import Bar, percent, table
from holdfast.errors import DataError, RecipeError, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.analysis.store import Answer
    from holdfast.analysis.surface import Plane, Surface
    from holdfast.rng import Streams
    from holdfast.types import Attack, Classifier

GRADIENT, RANDOM = "gradient", "random"
FIRST = 4
"""Images that are shown if nobody asks for others."""
BEYOND = 1.25
"""How far a plane through attacked points goes, over how far the attack may go."""


def ask(
    ready: Ready,
    quiet: bool,
    along: Annotated[
        str, typer.Option("--along", help="gradient,random or pgd,random or pgd,apgd or pgd,pgd@RUN.")
    ] = "gradient,random",
    shown: Annotated[
        str | None, typer.Option("--show", help="Examples, as reports number them; the first four.")
    ] = None,
    radius: Annotated[
        float | None, typer.Option("--radius", help="Euclidean, of the square; 1, or as attacks need.")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, max=100, help="Grid points from the image to the edge.")] = 20,
    clip: Annotated[bool, typer.Option("--clip", help="Cut points to [0, 1].")] = False,
    norm: Annotated[str, typer.Option("--norm", help="Of attacks: linf, l2 or l1.")] = "linf",
    eps: Annotated[str, typer.Option("--eps", help="Budget of attacks.")] = "8/255",
) -> "Answer":
    """The loss around images along the gradient and a random direction, or along what attacks find."""
    from holdfast.analysis.store import write_answer
    from holdfast.analysis.surface import loss_surface
    from holdfast.rng import Streams

    words = _words(along)
    attacks = {word: _attack(word, norm, eps) for word in words if word not in (GRADIENT, RANDOM)}
    size = _radius(radius, [*attacks.values()], ready.splits.shape)
    others = {word: _other(word, ready) for word in attacks if "@" in word}
    test, rows = ready.splits.test, _rows(shown, ready.splits.test.index.tolist())
    settings = {
        "along": words, "radius": size, "steps": steps, "clip": clip,
        **({"norm": norm, "budget": eps} if attacks else {}),
        **({"others": {word: digest for word, (_, digest) in others.items()}} if others else {}),
    }  # fmt: skip
    seen = about(ready, "surface", settings, {"surfaces": []})
    answer, known = seen.question, {one["example"]: one for one in seen.question.result["surfaces"]}
    rows = [row for row in rows if int(test.index[row]) not in known]  # images add up from call to call
    with Bar(quiet=quiet).stage(f"surface {ready.subjects[0].run}", "examples") as bar:
        for number, row in enumerate(rows, 1):
            (x, y), rng = test.batch([row]), Streams(ready.seed, "surface", test.index[[row]])
            x, y = x.to(seen.where), y.to(seen.where.device)
            plane = _plane(seen.model, x, y, words, attacks, others, rng)
            found = loss_surface(
                seen.model, x, y, plane, radius=size, steps=steps, clip=clip, batch=ready.how.batch_size
            )
            known[int(test.index[row])] = _plain(found, plane, int(test.index[row]), int(y))
            answer = replace(answer, result={"surfaces": [known[example] for example in sorted(known)]})
            write_answer(ready.run.path, answer)
            bar(number, len(rows), f"example {int(test.index[row])}")
    return answer


def _plane(
    model: "Classifier", x: "Tensor", y: "Tensor", words: list[str], attacks: "dict[str, Attack]",
    others: "dict[str, tuple[Classifier, str]]", rng: "Streams",
) -> "Plane":  # fmt: skip
    """The plane through an image that the words ask for."""
    from holdfast.analysis.surface import gradient_plane, plane_through

    if words[0] == GRADIENT:
        return gradient_plane(model, x, y, rng=rng)
    ends = []
    for number, word in enumerate(words):
        if word != RANDOM:
            attacked, _ = others.get(word, (model, ""))
            ends.append(attacks[word](attacked, x, y, rng=rng.split(f"attack {number}")))
    return plane_through(x, ends, rng=rng)


def _words(along: str) -> list[str]:
    words = [word.strip() for word in along.split(",")]
    good = len(words) == 2 and words[0] != RANDOM and words[1] != GRADIENT
    if not good or (words[0] == GRADIENT and words[1] != RANDOM):
        came = f"got {along!r}"
        raise RecipeError(f"--along: expected gradient,random, or an attack and random or another attack; {came}")
    return words


def _attack(word: str, norm: str, eps: str) -> "Attack":
    from holdfast.attacks import ATTACKS
    from holdfast.recipe import parse
    from holdfast.types import Attack

    name = word.partition("@")[0]
    if name not in ATTACKS:
        raise RecipeError(f"--along: {unknown(name, [GRADIENT, RANDOM, *ATTACKS])}")
    if norm not in ("l1", "l2", "linf"):
        raise RecipeError(f"--norm: {unknown(norm, ('l1', 'l2', 'linf'))}")
    attack: Attack = parse(Attack, {name: {"threat": {norm: eps}}}, where=lambda path: f"--along {'.'.join(path)}")
    # The highest loss in reach is wanted, not the first success.
    return replace(attack, until_lost=False) if hasattr(attack, "until_lost") else attack  # type: ignore[type-var]


def _radius(asked: float | None, attacks: "list[Attack]", shape: tuple[int, ...]) -> float:
    """As asked; else 1, or what holds every point that the attacks may reach."""
    import torch

    if asked is not None:
        if not 0 < asked < math.inf:
            raise RecipeError(f"--radius: expected a positive number, got {asked:g}")
        return asked
    grey = torch.full((1, *shape), 0.5)
    ends = [attack.threat.extreme(torch.ones_like(grey), grey) for attack in attacks]
    return float(f"{BEYOND * max(float((end - grey).norm()) for end in ends):.3g}") if ends else 1.0


def _other(word: str, ready: Ready) -> "tuple[Classifier, str]":
    """The network after the @, with the hash of its weights."""
    from holdfast.cli.device import to_device
    from holdfast.runs import load_model

    path = Path(word.partition("@")[2])
    loaded = load_model(path)
    mine = (ready.splits.shape, len(ready.splits.classes))
    theirs = (loaded.card.shape, len(loaded.card.classes))
    if mine != theirs:
        raise DataError(f"--along {word}: expected a network of shape and classes {mine}, got {theirs}")
    to_device(loaded.model, ready.device)
    return loaded.model, loaded.card.hash[:12]


def _rows(text: str | None, examples: list[int]) -> list[int]:
    """Rows of the examples that are asked for, each once."""
    if text is None:
        return list(range(min(FIRST, len(examples))))
    rows = {str(example): row for row, example in enumerate(examples)}
    parts = dict.fromkeys(part.strip() for part in text.split(","))
    if missing := [part for part in parts if part not in rows]:
        some = ", ".join(map(str, sorted(examples)[:FIRST]))
        raise RecipeError(f"--show: expected examples of the test images, such as {some}; got {missing[0]!r}")
    return [rows[part] for part in parts]


def _plain(found: "Surface", plane: "Plane", example: int, label: int) -> dict[str, Any]:
    from holdfast.analysis.surface import nearest_change

    loss, prediction = found.loss[0], found.prediction[0]
    middle = len(loss) // 2
    numbers = {
        "here": float(loss[middle, middle]),
        "highest": float(loss.max()),
        "right": float((prediction == label).double().mean()),
        "nearest": float(nearest_change(found)[0]),
    }
    return {
        "example": example,
        "label": label,
        "numbers": {name: _rounded(value) for name, value in numbers.items()},
        "loss": [[_rounded(value) for value in row] for row in loss.tolist()],
        "prediction": prediction.tolist(),
        "marks": [[_rounded(value) for value in mark] for mark in plane.marks[0].tolist()],
        "replaced": plane.replaced[0].tolist(),
    }


def _rounded(value: float) -> float | None:
    """Four digits, more cannot be seen; None for what is no number."""
    return float(f"{value:z.4g}") if math.isfinite(value) else None


def show(answer: "Answer") -> None:
    """What the grid says of each image."""
    rows = []
    for surface in answer.result["surfaces"]:
        found = {name: "none" if value is None else f"{value:z.4g}" for name, value in surface["numbers"].items()}
        right = percent(surface["numbers"]["right"])
        rows.append([f"{surface['example']}", found["here"], found["highest"], right, found["nearest"]])
    title = f"{' and '.join(answer.settings['along'])}, within {answer.settings['radius']:g}"
    columns = ["example", "loss here", "highest", "predicted as labelled", "nearest other class"]
    table(columns, rows, title=title)
    replaced = [s["example"] for s in answer.result["surfaces"] if any(s["replaced"])]
    if replaced:
        echo(f"a direction was zero or parallel to the other, and is random instead: {replaced}")


command = asking(ask, show)
