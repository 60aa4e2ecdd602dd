"""On the digits, every objective that is meant to make networks robust does: PGD succeeds less often."""

import statistics

import pytest

from holdfast.attacks import PGD
from holdfast.recipe import parse_recipes
from holdfast.runs import Run, load_model, prepare
from holdfast.threat import Linf
from holdfast.training import fit
from holdfast.training.selection import validation_scores

SEEDS = range(5)
QUANTILE = 2.776  # of Student's t with four degrees of freedom, 97.5 %
TEXT = """
name: digits
data: {source: digits}
model: {cnn: {width: 0.5}}
train: {epochs: 6, batch_size: 64, optimizer: {sgd: {lr: 0.05}}}
"""
STEPS = "threat: {linf: 0.1}, steps: 5"

OBJECTIVES = {
    "adversarial": f"{{adversarial: {{attack: {{pgd: {{{STEPS}}}}}}}}}",
    "targeted": f"{{adversarial: {{attack: {{pgd: {{{STEPS}}}}}, target: random}}}}",
    "trades": f"{{trades: {{{STEPS}}}}}",
    "mart": f"{{mart: {{{STEPS}}}}}",
    "mma": "{mma: {threat: {linf: 0.2}, steps: 5, least: 0.02}}",
    "fast": "{fast: {threat: {linf: 0.1}}}",
    "free": "{free: {threat: {linf: 0.1}, replays: 4}}",
    "awp": f"{{awp: {{objective: {{trades: {{{STEPS}}}}}}}}}",
    "soar": "{soar: {threat: {linf: 0.1}}}",
    "foar": "{foar: {threat: {linf: 0.1}}}",
    "cure": "{cure: {weight: 4}}",
    "llr": f"{{llr: {{{STEPS}}}}}",
    "input_gradient": "{input_gradient: {weight: 0.02}}",
    "jacobian": "{jacobian: {weight: 0.1}}",
}


AFTER_STANDARD = ["train.init_from={standard}/{{seed}}", "train.optimizer.sgd.lr=0.005"]
"""What the thesis does for SOAR, which fails on fresh weights: it goes on from standard training, with small steps."""


def pgd_error(objective, seed, path, more=()):
    """Share of the test images that PGD-20 at 0.1 turns, or that are wrong to begin with."""
    (recipe,) = parse_recipes(TEXT, [f"seed={seed}", f"train.objective={objective}", *more])
    splits, run = prepare(recipe.data, seed), Run(path)
    run.path.mkdir(parents=True)
    for _ in fit(recipe, splits, run):
        pass
    attack = PGD(threat=Linf(0.1), steps=20)
    return 1 - validation_scores(load_model(run.path).model, splits.test, attack, 0)["robust_accuracy"]


@pytest.fixture(scope="module")
def standard(tmp_path_factory):
    path = tmp_path_factory.mktemp("standard")
    return path, [pgd_error("standard", seed, path / str(seed)) for seed in SEEDS]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_pgd_succeeds_less_often_than_after_standard_training(name, standard, tmp_path):
    """By a margin that five seeds confirm: the lower end of the 95 % interval of the mean difference."""
    path, before = standard
    more = [text.format(standard=path) for text in AFTER_STANDARD] if name == "soar" else []
    errors = [pgd_error(OBJECTIVES[name], seed, tmp_path / str(seed), more) for seed in SEEDS]
    gains = [plain - mine for plain, mine in zip(before, errors, strict=True)]
    least = statistics.mean(gains) - QUANTILE * statistics.stdev(gains) / len(SEEDS) ** 0.5
    assert least > 0.02, f"{name}: mean error {statistics.mean(errors):.3f} after {statistics.mean(before):.3f}"
