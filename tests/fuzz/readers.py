"""How a command reads each kind of file in a directory; heavy imports happen where they are needed."""

import torch

from holdfast import files
from holdfast.data import Cifar10, Cifar100, Emnist, Folder, Idx, Npy, Npz, Svhn, Waveforms, WavFolder
from holdfast.data.npy import SEVERITIES


def recipe(place):
    from holdfast.recipe import load_recipes

    return load_recipes(place / "recipe.yaml")


def plan(place):
    from holdfast.search.plan import load_plan

    return load_plan(place / "plan.yaml")


def stored_recipe(place):
    from holdfast.runs import Run
    from tests.training.tiny import recipe as tiny

    kept = (place / "run/recipe.yaml").read_bytes()
    try:
        Run(place / "run").claim(tiny())
    finally:
        (place / "run" / files.CHECKSUMS).unlink(missing_ok=True)
        (place / "run/recipe.yaml").write_bytes(kept)


def weights(place):
    from holdfast.models import read_metadata, read_state

    read_state(place / "a.safetensors")
    return read_metadata(place / "a.safetensors")


def model(place):
    from holdfast.runs import load_model

    return load_model(place / "a.safetensors").model(torch.zeros(1, 1, 8, 8))


def torch_weights(place):
    from holdfast.models import read_state

    return read_state(place / "a.pt")


def state(place):
    from holdfast.training.checkpoint import load_state

    return load_state(place / "run/state.pt")


def resumed(place):
    from holdfast.runs import Run
    from holdfast.training import fit
    from tests.training.tiny import recipe as tiny
    from tests.training.tiny import splits

    (place / "run" / files.CHECKSUMS).unlink(missing_ok=True)
    work = fit(tiny(), splits(tiny()), Run(place / "run"))
    next(work, None)
    work.close()
    (place / "run" / files.CHECKSUMS).unlink(missing_ok=True)


def npz(place):
    return Npz(path=str(place / "a.npz"))()


def npy(place):
    return Npy(path=str(place / "a.npy"), severity=1)()


def stored_corruption(place):
    from holdfast.corruptions.stored import Stored, _opened

    _opened.cache_clear()
    corruption = Stored(path=str(place), kind="a", severity=SEVERITIES)
    corruption.check()
    return corruption.take(torch.arange(2), torch.zeros(2, 1, 8, 8), torch.tensor([0, 1]))


def idx(place):
    return Idx(name="m", classes=("a", "b"))(place)


def emnist(place):
    return Emnist(split="mnist")(place)


def cifar10(place):
    return Cifar10()(place)


def cifar100(place):
    return Cifar100()(place)


def svhn(place):
    return Svhn()(place)


def folder(place):
    return Folder(path=str(place / "data"))()


def wav_folder(place):
    return WavFolder(path=str(place / "data"), length=8)()


def waveforms(place):
    return Waveforms(path=str(place / "a.npz"), rate=8000, test_speakers=("a",))()


def facts(place):
    from holdfast.report.runs import read_run
    from holdfast.runs import Run

    run = Run(place / "run")
    run.info()
    (place / "run" / files.CHECKSUMS).unlink(missing_ok=True)
    return read_run(place / "run")


def foreign(place):
    from holdfast.runs import Foreign, Run

    run = Run(place / "run")
    network = run.info().get("network")
    if isinstance(network, dict):
        Foreign.read(network, run.info_file, trust=False).build((1, 8, 8), 10)


def metrics(place):
    from holdfast.report.runs import read_run
    from holdfast.training.records import lines

    lines(place / "run/metrics.jsonl")
    return read_run(place / "run")


def page(place):
    from unittest.mock import patch

    from holdfast.report.page import render
    from holdfast.report.runs import read_runs

    with patch("holdfast.show.page.plotly_script", lambda: ""):
        return render(read_runs([place / "run"])).encode()


def ledger(place):
    from holdfast.results import Ledger, accuracies

    rows = Ledger(place / "run/ledger").read()
    return accuracies(rows)


def compared(place):
    return _printed("compare", place / "run", place / "other", "--json")


def corruption_errors(place):
    return _printed("mce", place / "run", "--reference", place / "other", "--json")


def selected(place):
    return _printed("select", place / "run", place / "other", "--by", "linf", "--accuracy", "0.7", "--within", "0.3")


def _printed(*arguments):
    """The lines that a command writes to its standard output."""
    import contextlib
    import io

    from holdfast.cli import app

    with contextlib.redirect_stdout(io.StringIO()) as written:
        app([str(argument) for argument in arguments], standalone_mode=False)
    return written.getvalue()


def gallery(place):
    from holdfast.evaluation.gallery import read_images
    from holdfast.report.gallery import read_galleries

    read_images(place / "run/gallery/0.npz")
    return read_galleries(place / "run/gallery")


def points(place):
    from holdfast.evaluation.points import read_points

    return read_points(place / "run/points/a.npy")


def answers(place):
    from holdfast.questions.answers import Store

    return Store(place / "run").read_all()


def verdicts(place):
    from holdfast.trust import read_verdicts

    return read_verdicts(place / "run")


def checked_file(place):
    return files.read_checked(place / "a file.txt")


def journal(place):
    from holdfast.search import open_study, read_findings
    from tests.search.tiny import plan as tiny

    of = tiny()
    return read_findings(open_study(of, place), of, 4)


def corruption_facts(place):
    from holdfast.cli.corrupt import _facts

    return _facts(place / "out/corruptions.json")
