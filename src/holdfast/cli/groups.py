"""Groups of options that several commands share, and the decorator with which a command takes them."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.code_permission import TrustCode, allowed_code
from holdfast.cli.device import Device, device_of
from holdfast.cli.locks import hold
from holdfast.cli.options import OUT, Fresh, Out, RecipeFile, Root, Set, names

if TYPE_CHECKING:
    import torch

    from holdfast.conduct.jobs import Job

Subset = Annotated[
    int | None,
    typer.Option("--subset", min=1, help="Test on this many images, drawn at random and balanced over the classes."),
]
Size = Annotated[int | None, typer.Option("--size", min=1, help="Resize the images of a folder to this many pixels.")]
Grey = Annotated[bool, typer.Option("--grey", help="Read the images of a folder in one channel.")]
Norm = Annotated[str | None, typer.Option("--norm", help="Norm of the budget: linf, l2 or l1; goes with --eps.")]
Eps = Annotated[str | None, typer.Option("--eps", help="Budget, such as 8/255 (default: that of the run's attack).")]
Budget = Annotated[
    str | None, typer.Option("--budget", help="Stop after this time, such as 10min, and report what was not run.")
]
Order = Annotated[
    str | None,
    typer.Option("--order", help="Order of AutoAttack's components: published, or yield (broken per second)."),
]
Run = Annotated[
    Path | None, typer.Argument(metavar="[RUN|CHECKPOINT]", help="Run directory, or weights written by holdfast.")
]


@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """Where and how runs are made."""

    out: Out = OUT
    data_root: Root = None
    fresh: Fresh = False
    device: Device = None
    trust: TrustCode = False

    def place(self) -> torch.device | None:
        """The device that the user names; None for the recipe's, or the usual one."""
        return None if self.device is None else device_of(self.device)


@dataclass(frozen=True, kw_only=True)
class RecipeOptions(PlaceOptions):
    """A recipe, and where and how its runs are made."""

    recipe: RecipeFile
    set_: Set = None

    def jobs(self, only: str | None) -> list[Job]:
        """The runs of the recipe, or some of its variants, with their directories claimed."""
        from holdfast.conduct.jobs import claim_jobs
        from holdfast.recipe.load import load_recipes

        recipes = load_recipes(self.recipe, self.set_ or (), only=names(only), out=self.out)
        code = allowed_code(recipes, self.recipe, trust=self.trust)
        return claim_jobs(recipes, self.out, hold, fresh=self.fresh, trust=code)


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """A network that holdfast did not train."""

    model: Annotated[
        str | None,
        typer.Option("--model", help="python:package.module:factory, or a name of `holdfast list models`."),
    ] = None
    weights: Annotated[
        Path | None,
        typer.Option("--weights", help="File with its weights: safetensors, or a state dict saved by PyTorch."),
    ] = None
    mean: Annotated[str | None, typer.Option(help="Mean of each channel, such as 0.49,0.48,0.45.")] = None
    std: Annotated[str | None, typer.Option(help="Standard deviation of each channel, such as 0.25,0.24,0.26.")] = None
    name: Annotated[str | None, typer.Option("--name", help="Name of the run to write.")] = None
    seed: Annotated[int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Random seed (default: 0).")] = None


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """The images that a network is tested on."""

    data: Annotated[
        str | None,
        typer.Option("--data", help="Data set, image folder, .npz or .npy file, or a mapping as in a recipe."),
    ] = None
    size: Size = None
    grey: Grey = False
    subset: Subset = None
    first: Annotated[
        int | None,
        typer.Option("--first", min=1, help="Test on the first N images, as published protocols often do."),
    ] = None
    data_root: Root = None


@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    """Where and how the work is done."""

    batch_size: Annotated[int | None, typer.Option("--batch-size", min=1, help="Images per forward pass.")] = None
    device: Device = None
    trust: Annotated[
        bool, typer.Option("--trust", help="Allow the Python code that a weights file or a run names to run.")
    ] = False
    out: Out = OUT


def grouped(
    command: Callable[..., None],
    *,
    stated: Sequence[inspect.Parameter] = (),
    fixed: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[..., None]:
    """A command whose parameters may be groups: the fields of a group become options of the command.

    Args:
        command: takes groups and ordinary options.
        stated: further options, which come first in the help and which the command takes as keyword arguments.
        fixed: values of parameters that are no options.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    parameters = [*stated]
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters_of(groups[name])
        elif name not in fixed and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    def flat(**values: Any) -> None:
        collected = {
            name: kind(**{field.name: values.pop(field.name) for field in dataclasses.fields(kind)})
            for name, kind in groups.items()
        }
        command(**values, **collected, **fixed)

    described: Any = flat  # Typer reads its options from the signature and its help from the docstring
    described.__signature__ = inspect.Signature(parameters)
    described.__annotations__ = {each.name: each.annotation for each in parameters}
    described.__name__, described.__doc__ = command.__name__, command.__doc__
    return flat


def _parameters_of(kind: Any) -> list[inspect.Parameter]:
    """A parameter for each field of a group."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in dataclasses.fields(kind)
    ]


def _default(field: dataclasses.Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
