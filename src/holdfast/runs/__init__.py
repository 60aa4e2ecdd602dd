"""Runs on disk: their directories, their images, and how a model is rebuilt from them."""

from holdfast.runs.card import Card, content_hash, path_of, read_card, weights_metadata
from holdfast.runs.code import (
    TrustedCode,
    call_of,
    calls_in,
    code_of,
    fingerprints,
    installed_methods,
    resolved,
    unresolved,
)
from holdfast.runs.directory import Run, version, versions
from holdfast.runs.foreign import Foreign
from holdfast.runs.identity import refuse_others, same_outputs
from holdfast.runs.initial import start_from
from holdfast.runs.networks import Bases, find_bases, fits, new_model, new_network
from holdfast.runs.outputs import Outputs, outputs_of
from holdfast.runs.splits import Splits, prepare
from holdfast.runs.weights import Loaded, load_model

__all__ = [
    "Bases",
    "Card",
    "Foreign",
    "Loaded",
    "Outputs",
    "Run",
    "Splits",
    "TrustedCode",
    "call_of",
    "calls_in",
    "code_of",
    "content_hash",
    "find_bases",
    "fingerprints",
    "fits",
    "installed_methods",
    "load_model",
    "new_model",
    "new_network",
    "outputs_of",
    "path_of",
    "prepare",
    "read_card",
    "refuse_others",
    "resolved",
    "same_outputs",
    "start_from",
    "unresolved",
    "version",
    "versions",
    "weights_metadata",
]
