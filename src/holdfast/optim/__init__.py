"""Optimizers and learning-rate schedules, as fields of a recipe."""

from holdfast.families import OPTIMIZERS, SCHEDULES
from holdfast.optim.optimizers import SGD, Adam, AdamW, Optimizer, RMSProp, SignSGD
from holdfast.optim.schedules import Constant, Cosine, CosineRestarts, MultiStep, OneCycle, Schedule

__all__ = [
    "OPTIMIZERS",
    "SCHEDULES",
    "SGD",
    "Adam",
    "AdamW",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "MultiStep",
    "OneCycle",
    "Optimizer",
    "RMSProp",
    "Schedule",
    "SignSGD",
]
