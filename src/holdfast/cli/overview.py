"""The table of runs for people: a row per check, a column per run or, over its seeds, per variant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.cli.seeds import Seeds

if TYPE_CHECKING:
    from holdfast.results.corruption_errors import Corrupted

Row = list[str]


@dataclass(frozen=True)
class Overview:
    """Records of runs as a table and the notes below it.

    Args:
        records: accuracies and worst cases, as `summary` makes them.
    """

    records: Sequence[dict[str, Any]]

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The runs of each variant: its seeds."""
        groups: dict[str, list[str]] = {}
        for run in dict.fromkeys(record["run"] for record in self.records):
            groups.setdefault(run.rsplit("/seed-", 1)[0], []).append(run)
        return groups

    @cached_property
    def main(self) -> dict[str, str]:
        """The weights of each run that the table is about."""
        labels: dict[str, str] = {}
        for record in self.records:
            labels[record["run"]] = min(labels.get(record["run"], record["weights"]), record["weights"])
        return labels

    @cached_property
    def columns(self) -> list[tuple[list[str], Seeds]]:
        """The runs of each column, and how many there are."""
        most = max(map(len, self.groups.values()))
        return [(runs, Seeds(len(runs), most)) for runs in self.groups.values()]

    @cached_property
    def _cells(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        cells = {(r["run"], r["weights"], r["check"]): r for r in self.records}
        return cells | {(r["run"], same, r["check"]): r for r in self.records for same in r["equal_weights"]}

    def _of(self, runs: Sequence[str], check: str, weights: str | None = None) -> list[dict[str, Any]]:
        return [cell for run in runs if (cell := self._cells.get((run, weights or self.main[run], check)))]

    def _names(self, *, worst: bool) -> list[str]:
        chosen = (r["check"] for r in self.records if not r["graded"] and bool(r["threat"]) == worst)
        return list(dict.fromkeys(chosen))

    def heading(self) -> Row:
        """What the numbers are, and a name for each column."""
        seeds = max(map(len, self.groups.values()))
        spread = "95 % interval" if seeds == 1 else f"± standard deviation over {seeds} seeds"
        names = list(self.groups) if seeds > 1 else [runs[0] for runs in self.groups.values()]
        dead = {r["run"] for r in self.records if r["at_chance"] and r["weights"] == self.main[r["run"]]}
        marks = [_chance_mark(runs, dead) for runs in self.groups.values()]
        return [f"accuracy [{spread}]", *(n + mark for n, mark in zip(short_names(names), marks, strict=True))]

    def rows(self) -> list[Row]:
        """Checks, worst cases, the same of the last weights, mean errors and average radii."""
        names = (*self._names(worst=False), *self._names(worst=True))
        shares = [
            [check, *(seeds.share(self._of(runs, check)) or "-" for runs, seeds in self.columns)] for check in names
        ]
        return [*shares, *self._last_rows(), *self._error_rows(), *self._radius_rows()]

    def _last_rows(self) -> Iterator[Row]:
        if any(r["weights"] == "last" != self.main[r["run"]] for r in self.records):
            for check in (*self._names(worst=False)[:1], *self._names(worst=True)):
                cells = [_last(self._of(runs, check, "last"), seeds) for runs, seeds in self.columns]
                yield [f"{check}, last weights", *cells]

    def _error_rows(self) -> Iterator[Row]:
        errors = _errors([r for r in self.records if r["weights"] == self.main[r["run"]]])
        for title in dict.fromkeys(one.title for each in errors.values() for one in each):
            cells = []
            for runs, seeds in self.columns:
                cells.append(_means([one for run in runs for one in errors.get(run, []) if one.title == title], seeds))
            yield [f"mean error, {title}", *cells]

    def _radius_rows(self) -> Iterator[Row]:
        for check in dict.fromkeys(r["check"] for r in self.records if r["radius"] is not None):
            radii = [([cell["radius"] for cell in self._of(runs, check)], seeds) for runs, seeds in self.columns]
            yield [f"average radius, {check}", *(seeds.mean(values, "{:z.4f}".format) for values, seeds in radii)]

    def notes(self) -> Iterator[str]:
        """What is only an upper bound, and what is not comparable."""
        for record in self.records:
            yield from _bounds(record)
        yield from _uneven([r for r in self.records if r["threat"] and r["weights"] == self.main[r["run"]]])
        for check, (fewest, most) in _sizes(self.records).items():
            yield f"unfinished or uneven: '{check}' has {fewest} to {most} images; repeat the command that made it"


def _bounds(record: dict[str, Any]) -> Iterator[str]:
    """Why an accuracy is only an upper bound."""
    who = f"upper bound only: {record['check']} on {record['run']} ({record['weights']})"
    if record["not_attacked"] and not record["threat"]:
        count = f"{record['not_attacked']} of {record['examples']} images"
        yield f"{who}: {count} were not attacked ({record['reason']})"
    if record["waiting"]:
        yield f"{who} has not run " + ", ".join(f"{step} on {n} images" for step, n in record["waiting"].items())


def _uneven(records: Sequence[dict[str, Any]]) -> list[str]:
    """Worst cases that are over other checks for some runs than for the first: their numbers are no comparison."""
    lines = []
    for check in dict.fromkeys(record["check"] for record in records):
        first, *others = [record for record in records if record["check"] == check]
        names = [other["run"] for other in others if other["checks"] != first["checks"]]
        if names:
            lines.append(f"not comparable: '{check}' of {', '.join(names)} is over other checks than of {first['run']}")
    return lines


def _last(cells: Sequence[dict[str, Any]], seeds: Seeds) -> str:
    """The last weights of a variant; those that equal the best ones count with their value."""
    if len(cells) == seeds.column and all(cell["weights"] == "best" for cell in cells):
        return "same as best"
    return seeds.share(cells) or "-"


def _sizes(records: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Checks that did not see as many images as others."""
    most = max(record["examples"] for record in records)
    seen: dict[str, int] = {}
    for record in records:
        if not record["threat"]:
            seen[record["check"]] = min(record["examples"], seen.get(record["check"], most))
    return {check: (fewest, most) for check, fewest in seen.items() if fewest < most}


def _errors(records: Sequence[dict[str, Any]]) -> dict[str, list[Corrupted]]:
    """The errors of each run by kind and severity, for each family and source."""
    from holdfast.results.corruption_errors import Corrupted

    shares: dict[tuple[str, str, str, str, str], dict[tuple[str, int], float]] = {}
    for r in records:
        if r["graded"]:
            key = (r["run"], r["weights"], r["method"], r["graded"]["family"], r["graded"]["source"])
            of = shares.setdefault(key, {})
            of[r["graded"]["kind"], r["graded"]["severity"]] = 1 - r["accuracy"]
    errors: dict[str, list[Corrupted]] = {}
    for key, of in shares.items():
        errors.setdefault(key[0], []).append(Corrupted(*key, of, 0, 0.0))
    return errors


def _means(corrupted_runs: Sequence[Corrupted], seeds: Seeds) -> str:
    """A mean corruption error, or its mean over seeds with the standard deviation; a kind missing, it is none."""
    if any(one.mean() is None for one in corrupted_runs):
        return "not complete"
    shares = [100 * value for value in (one.mean() for one in corrupted_runs) if value is not None]
    return seeds.mean(shares, "{:z.1f}".format, " %")


def _chance_mark(runs: Sequence[str], dead: set[str]) -> str:
    """The remark in a column's title on networks at chance level."""
    count = sum(run in dead for run in runs)
    if not count:
        return ""
    return " (at chance level)" if len(runs) == 1 else f" ({count} of {len(runs)} seeds at chance level)"


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the part that all share, cut at a slash."""
    shared = 0
    while len(names) > 1 and all("/" in name[shared:] for name in names):
        cut = names[0].index("/", shared) + 1
        if any(name[:cut] != names[0][:cut] for name in names):
            break
        shared = cut
    return [name[shared:] for name in names]
