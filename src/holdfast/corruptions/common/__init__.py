"""The common corruptions of Hendrycks and Dietterich: 15 kinds and 4 extra ones, in five severities."""

from holdfast.corruptions.common.corruption import FUNCTIONS, Common
from holdfast.corruptions.common.tables import EXTRA, SEVERITIES, STANDARD, TABLES, Kind, parameters

__all__ = ["EXTRA", "FUNCTIONS", "SEVERITIES", "STANDARD", "TABLES", "Common", "Kind", "parameters"]
