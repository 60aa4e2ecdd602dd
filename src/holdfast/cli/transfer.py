"""`holdfast transfer`: sources x attacks x targets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.code_permission import allowed_code
from holdfast.cli.groups import PlaceOptions, grouped
from holdfast.cli.locks import hold
from holdfast.cli.options import Json, Set
from holdfast.cli.output import echo_json
from holdfast.cli.screen import between_steps, resumable, say
from holdfast.cli.sections import show
from holdfast.show.progress import Bar


@grouped
@resumable()
def command(
    matrix: Annotated[Path, typer.Argument(metavar="MATRIX", help="Matrix in YAML: sources, attacks and targets.")],
    where: PlaceOptions,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Attack sources, try the points on all targets and report; repeat the command to resume."""
    from holdfast.conduct.matrix_networks import entries_of
    from holdfast.conduct.transferring import run_matrix
    from holdfast.recipe.matrix import load_matrix
    from holdfast.report.transfers import changes, errors, networks, records
    from holdfast.results.matrices import read_matrix

    place = where.place()
    read = load_matrix(matrix, set_ or ())
    code = allowed_code([entry.card.recipe for entry in entries_of(read)], matrix, trust=where.trust)
    work = run_matrix(read, where.out, hold, data_root=where.data_root, device=place, trust=code, fresh=where.fresh)
    with Bar(quiet=as_json).stage(read.name, "rows") as progress, between_steps() as stop:
        for record in work:
            progress(record.done, record.total, record.doing)
            if stop.requested:
                raise KeyboardInterrupt
    data = read_matrix(where.out / read.name)
    if as_json:
        echo_json(records(data))
        return
    for items in (errors(data), changes(data), networks(data)):
        show(items)
    say(f"report: {where.out / read.name / 'report.html'}")
