"""Processes that train together: which of them writes and speaks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from holdfast.errors import RecipeError
from holdfast.recipe.schema import Recipe


def is_first() -> bool:
    """Whether this is the process that writes and speaks; with several devices the others only help to train.

    Without others (`WORLD_SIZE`) it is the first, whatever number the environment gives it.

    Raises:
        RecipeError: if the environment numbers processes with anything but whole numbers.
    """
    ranks = [_whole(name) for name in ("RANK", "LOCAL_RANK") if name in os.environ]
    alone = "WORLD_SIZE" not in os.environ or _whole("WORLD_SIZE") <= 1
    return alone or not ranks or ranks[0] == 0


def require_one_machine(recipes: Iterable[Recipe]) -> None:
    """Refuse to wait for processes on other machines, which nobody starts: a recipe trains on the devices of one.

    Raises:
        RecipeError: if the environment, such as that of a cluster, gives this machine another number than 0.
    """
    if "WORLD_SIZE" in os.environ or all(recipe.train.fabric.devices == 1 for recipe in recipes):
        return
    for name in ("NODE_RANK", "GROUP_RANK"):
        if name in os.environ and _whole(name) > 0:
            raise RecipeError(
                f"{name}: expected 0, since a recipe trains on the devices of one machine; got {os.environ[name]}; "
                f"unset it, or start all processes with torchrun"
            )


def _whole(name: str) -> int:
    text = os.environ[name]
    if not re.fullmatch("[0-9]{1,9}", text):
        raise RecipeError(
            f"{name}: expected a whole number from 0 in this variable of the environment, which numbers processes that "
            f"train together; got {text[:40]!r}; unset it to train in one process"
        )
    return int(text)
