"""Orthogonal layers turned into ordinary ones."""

from __future__ import annotations

import copy

from torch import nn


def export(model: nn.Module) -> nn.Module:
    """A copy of the network whose orthogonal layers are ordinary ones with the same outputs, to the bit.

    Nothing is orthogonalised any more: for deployment, and for tools that know torch's layers only.
    """
    copied = nn.ModuleDict({"root": copy.deepcopy(model)})  # a parent for every module
    for name, module in model.named_modules():
        if hasattr(module, "plain"):
            parent, _, last = f"root.{name}".rstrip(".").rpartition(".")
            setattr(copied.get_submodule(parent), last, module.plain())
    return copied["root"]
