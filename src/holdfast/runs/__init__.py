"""Runs on disk: their directories, their images, and how a model is rebuilt from them."""

from holdfast.runs.directory import Run, version, versions
from holdfast.runs.initial import start_from
from holdfast.runs.splits import Splits, prepare
from holdfast.runs.weights import (
    Card,
    Loaded,
    content_hash,
    load_model,
    new_model,
    new_network,
    read_card,
    weights_metadata,
)

__all__ = [
    "Card",
    "Loaded",
    "Run",
    "Splits",
    "content_hash",
    "load_model",
    "new_model",
    "new_network",
    "prepare",
    "read_card",
    "start_from",
    "version",
    "versions",
    "weights_metadata",
]
