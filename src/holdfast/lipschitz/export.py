"""Orthogonal layers turned into ordinary ones."""

from __future__ import annotations

import copy

from torch import nn

from holdfast.lipschitz.convolution import OrthogonalConvolution
from holdfast.lipschitz.dense import OrthogonalDense


def export(model: nn.Module) -> nn.Module:
    """A copy of the network whose orthogonal layers are ordinary ones with the same outputs, to the bit.

    For deployment, and for tools that know only torch's layers. A layer that is used in several places remains one
    layer.
    """
    copied = nn.ModuleDict({"root": copy.deepcopy(model)})  # a parent for every module
    made: dict[int, nn.Module] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, (OrthogonalDense, OrthogonalConvolution)):
            parent, _, last = f"root.{name}".rstrip(".").rpartition(".")
            made[id(module)] = made.get(id(module)) or module.plain()
            setattr(copied.get_submodule(parent), last, made[id(module)])
    return copied["root"]
