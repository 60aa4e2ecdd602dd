"""Checks on a model: rows of the ledger, block by block, resumable."""

from holdfast.evaluation.blocks import evaluations
from holdfast.evaluation.direct import evaluate
from holdfast.evaluation.setting import Block
from holdfast.evaluation.subject import Subject, try_out
from holdfast.evaluation.summary import Results

__all__ = ["Block", "Results", "Subject", "evaluate", "evaluations", "try_out"]
