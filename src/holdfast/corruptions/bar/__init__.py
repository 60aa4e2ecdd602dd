"""The corruptions of Mintun, Kirillov and Xie (CIFAR-10-C-bar): ten kinds in five severities, for validation."""

from holdfast.corruptions.bar.corruption import FUNCTIONS, Bar
from holdfast.corruptions.bar.tables import KINDS, LEVELS, SEVERITIES, Kind

__all__ = ["FUNCTIONS", "KINDS", "LEVELS", "SEVERITIES", "Bar", "Kind"]
