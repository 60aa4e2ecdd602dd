"""`holdfast attack`: one attack on one network, with what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.drawing import draw
from holdfast.cli.groups import Budget, ImageOptions, NetworkOptions, Order, Run, WorkOptions, grouped
from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.request import NamedNetwork
from holdfast.cli.screen import resumable, say
from holdfast.cli.sections import show_overview
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from holdfast.checks import Check
    from holdfast.conduct.ready import Ready
    from holdfast.types import Attack

Fields = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Any field of the attack, such as step_size=0.01."),
]


@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """Fields of the attack that have options of their own."""

    norm: Annotated[str | None, typer.Option("--norm", help="linf, l2, l1 or l0; goes with --eps.")] = None
    eps: Annotated[str | None, typer.Option("--eps", help="Budget in that norm, such as 8/255.")] = None
    steps: Annotated[int | None, typer.Option("--steps", help="Number of steps of the attack.")] = None
    restarts: Annotated[int | None, typer.Option("--restarts", help="Number of random restarts.")] = None
    loss: Annotated[str | None, typer.Option("--loss", help="A name of `holdfast list losses`.")] = None
    set_: Fields = None

    def attack(self, name: str) -> Attack:
        """The attack that the options describe."""
        from holdfast.types import Attack

        if (self.norm is None) != (self.eps is None):
            alone = "--norm" if self.norm else "--eps"
            raise RecipeError(f"attack: expected --norm and --eps together; got only {alone}")
        stated = {"steps": self.steps, "restarts": self.restarts, "loss": self.loss}
        fields: dict[str, Any] = {name: value for name, value in stated.items() if value is not None}
        if self.norm is not None:
            fields = {"threat": {self.norm: self.eps}, **fields}
        attack: Attack = described(Attack, "--attack", name, fields, self.set_ or (), example="step_size=0.01")
        return attack


@dataclass(frozen=True, kw_only=True)
class SavingOptions:
    """Where perturbed images go."""

    save_images: Annotated[
        Path | None, typer.Option("--save-images", help="Write originals, perturbed images and differences as PNG.")
    ] = None
    save_npz: Annotated[Path | None, typer.Option("--save-npz", help="Write images and outcomes as arrays.")] = None


@grouped
@resumable()
def command(
    name_: Annotated[str, typer.Option("--attack", help="A name of `holdfast list attacks`.")],
    options: AttackOptions, save: SavingOptions,
    network: NetworkOptions, images: ImageOptions, work: WorkOptions,
    run: Run = None, order: Order = None, budget: Budget = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Attack a network and show what the attack achieved; repeat the command to resume."""
    from holdfast.cli.certify import refute
    from holdfast.cli.records import CLEAN, attack_record, successes_in_words
    from holdfast.conduct.checking import check_network
    from holdfast.corruptions.noise import Clean
    from holdfast.report import write_own_report
    from holdfast.report.runs import read_run

    named = NamedNetwork(
        verb="attack", run=run, network=network, images=images, work=work, order=order, budget=budget
    )  # fmt: skip
    attack = options.attack(name_)
    ready = alone(named.ready(), [Clean(), attack], budget)
    saving = Saving.of(ready, save.save_images, save.save_npz)
    draw(check_network(ready, points=saving.points), quiet=as_json)
    saved = saving.save(ready)
    report = write_own_report(ready.run.path)
    weights, label = ready.subjects[0].weights, label_of(attack)
    record = attack_record(ready.run.path, weights, label)
    if as_json:
        echo_json({**record, "saved": saved, "report": str(report)})
    else:
        show_overview([read_run(ready.run.path).only(weights, (CLEAN, label))], "yields")
        say(successes_in_words(record))
        for what, where in saved.items():
            say(f"{what}: {where}")
        if saving.points is not None and not saved:
            say("nothing to save yet: no block of images is through")
        say(f"device: {ready.device}")
        say(f"report: {report}")
    refute([ready.run])


def alone(ready: Ready, checks: Sequence[Check], budget: str | None) -> Ready:
    """The same network with other checks than its recipe's; the recipe's budget is for its own."""
    how = ready.how if budget is not None else replace(ready.how, budget=None)
    return replace(ready, checks=checks, how=how)


def described(kind: Any, option: str, name: str, fields: dict[str, Any], more: Sequence[str], *, example: str) -> Any:
    """A method by its name, some fields and what `--set` says, read as a recipe would.

    Args:
        kind: of method, such as `Attack`.
        option: that names it, for error messages.
        name: in the registry.
        fields: said by options of their own.
        more: texts of `--set`.
        example: of such a text.
    """
    from holdfast.recipe.load import override
    from holdfast.recipe.schema import FAMILIES
    from holdfast.recipe.strict import parse

    for text in more:
        override(fields, text, FAMILIES[kind].get(name), example=example)
    return parse(kind, {name: fields}, where=lambda path: f"{option} {'.'.join(path)}".strip(), code_allowed=True)


def label_of(attack: Check) -> str:
    """Its name in the ledger."""
    from holdfast.checks import Check
    from holdfast.recipe.plain import describe

    return describe(attack, Check)[1]


@dataclass(frozen=True)
class Saving:
    """Where perturbed images go.

    Args:
        points: directory with what an evaluation keeps of them; None if nobody wants them.
        images: directory for PNG files.
        npz: archive for arrays.
        about: what they are.
    """

    points: Path | None
    images: Path | None
    npz: Path | None
    about: str

    @classmethod
    def of(cls, ready: Ready, images: Path | None, npz: Path | None) -> Saving:
        """Look at the places before hours of work."""
        from holdfast.cli.points import about_attack, refuse_directory

        about = about_attack(ready.checks[-1], ready.subjects[0], ready.splits.fingerprint)
        if images is not None:
            refuse_directory(images, about)
        if npz is not None and npz.is_dir():
            raise RecipeError(f"--save-npz: expected the name of a file; {npz} is a directory")
        points = ready.run.path / "points" if images or npz else None
        return cls(points, images, npz, about)

    def save(self, ready: Ready) -> dict[str, str]:
        """Write the points that exist; returns the paths."""
        from holdfast.cli.points import read_parts, write_images, write_npz
        from holdfast.results.ledger import Ledger

        if self.points is None:
            return {}
        label, subject = label_of(ready.checks[-1]), ready.subjects[0]
        chosen = read_parts(Ledger(self.points), ready.run.ledger, subject, label, ready.splits.test)
        if not chosen:
            return {}
        if self.images is not None:
            write_images(chosen, self.images, self.about, ready.splits.classes)
        if self.npz is not None:
            write_npz(chosen, self.npz, self.about)
        outputs = {"images": self.images, "npz": self.npz}
        return {what: str(path) for what, path in outputs.items() if path is not None}
