"""Optimizers and learning-rate schedules, as fields of a recipe."""

from holdfast.optim.optimizers import OPTIMIZERS, SGD, Adam, AdamW, Optimizer, RMSProp, SignSGD
from holdfast.optim.schedules import SCHEDULES, Constant, Cosine, CosineRestarts, MultiStep, OneCycle, Schedule

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
