"""The searches that come along: they are read, and a trial of each runs on tiny data."""

from pathlib import Path

import pytest

from holdfast.search import Ended, load_plan, work

FILES = sorted(Path("recipes/search").glob("*.yaml"))
TINY = [
    "data.source=digits",
    "data.subset=60",
    "data.test_subset=20",
    "data.validation=0.4",
    "model={mlp: {hidden: [8]}}",
]
SHORT = ["train.epochs=1", "train.batch_size=12", "train.optimizer={sgd: {lr: 0.05}}", "search.trials=1"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_trial_runs_to_its_end(file, tmp_path):
    plan = load_plan(file, [*TINY, *SHORT])
    (ended,) = [record for record in work(plan, tmp_path) if isinstance(record, Ended)]
    assert ended.state == "complete"
    assert len(ended.values) == len(plan.settings.objective)


@pytest.mark.parametrize(("name", "classes"), [("cifar10_spider_radius", 10), ("cifar100_spider_radius", 100)])
def test_figure_5_moves_the_radius_alone_and_keeps_half_of_the_label_at_it(name, classes):
    plan = load_plan(Path(f"recipes/search/{name}.yaml"))
    ((path, radii),) = plan.ranges.items()
    assert path.endswith("spider.tau")
    assert radii.grid() == tuple(range(0, 21, 2))
    assert plan.settings.trials == 11
    spider = plan.recipe({path: 4.0}, "radius").data.augment[-1]
    assert 1 / classes + spider.xi == pytest.approx(0.5)


@pytest.mark.parametrize("baseline", ["", "_augmix", "_pixmix", "_deepaugment"])
def test_table_7_searches_both_parameters_of_spider_in_the_published_ranges(baseline):
    plan = load_plan(Path(f"recipes/search/cifar10_spider{baseline}.yaml"))
    searched = {path.rpartition(".")[2]: (span.low, span.high) for path, span in plan.ranges.items()}
    assert searched == {"tau": (0, 20), "xi": (0, 0.9)}
    assert plan.settings.trials == 30
    assert plan.settings.pruning.method == "median"
    assert (baseline.removeprefix("_") or "spider") in Path(f"recipes/search/cifar10_spider{baseline}.yaml").read_text()
