"""Search for hyper-parameters: ranges in a recipe, trials in runs of their own, and their findings."""

from holdfast.search.findings import Findings, TrialRecord, read_findings
from holdfast.search.plan import Plan, load_plan, parse_plan
from holdfast.search.ranges import RANGES, Choice, Log, Range, Uniform, Whole
from holdfast.search.schema import Goal, Pruning, SearchRecipe
from holdfast.search.study import forget_study, open_study
from holdfast.search.trial import Busy, Ended
from holdfast.search.worker import ended, work

__all__ = [
    "RANGES",
    "Busy",
    "Choice",
    "Ended",
    "Findings",
    "Goal",
    "Log",
    "Plan",
    "Pruning",
    "Range",
    "SearchRecipe",
    "TrialRecord",
    "Uniform",
    "Whole",
    "ended",
    "forget_study",
    "load_plan",
    "open_study",
    "parse_plan",
    "read_findings",
    "work",
]
