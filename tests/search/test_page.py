"""The page of a search: the numbers that were found, drawn, and nothing that runs."""

import shutil

import pytest

from holdfast.checks import CHECKS
from holdfast.search import Choice, Findings, Goal, Log, TrialRecord, Uniform
from holdfast.search.page import write_search
from tests.report.reading import read

RANGES = {
    "data.augment.0.spider.tau": Uniform(low=0, high=20),
    "train.optimizer.sgd.lr": Log(low=0.01, high=1),
    "model": Choice(values=("mlp", "<script>alert(1)</script>")),
}


def trial(number, state="complete", values=(0.5,), epochs=4):
    drawn = {
        "data.augment.0.spider.tau": 2.0 * number,
        "train.optimizer.sgd.lr": 0.01 * (1 + number % 3 * 0.2),
        "model": RANGES["model"].grid()[number % 2],
    }
    steps = tuple((epoch + 1, 0.1 * epoch + 0.01 * number) for epoch in range(epochs))
    error = "step 3: expected a finite loss, got nan" if state == "failed" else None
    return TrialRecord(
        number, state, drawn, values if state == "complete" else (), steps, 2.0 * epochs, epochs, 4,
        {"accuracy": 0.4, "loss": 1.0} if state == "complete" else {}, error,
    )  # fmt: skip


def findings(*goals):
    goals = goals or (Goal(),)
    values = [tuple(0.5 + 0.05 * n * (-1) ** g for g in range(len(goals))) for n in range(8)]
    trials = [trial(n, values=values[n]) for n in range(8)]
    trials += [trial(8, "pruned", epochs=1), trial(9, "failed", epochs=2), trial(10, "lost"), trial(11, "running")]
    importance = dict.fromkeys(RANGES, 1 / 3)
    return Findings("digits", goals, RANGES, tuple(trials), 12, "accuracy", (importance,) * len(goals))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return read(write_search(findings(), tmp_path_factory.mktemp("page") / "search.html", ["name: best\n"]))


def test_says_what_pruning_saved(page):
    table = page.table("What pruning saved")
    # Eight whole trials of 8 s, and one of 2 s that would have taken 8 s.
    assert [row[0] for row in table.values()][1:] == ["66.0 s", "72.0 s", "× 1.09", "8.25", "7"]


def test_tells_the_trials_by_their_ends(page):
    assert "step 3: expected a finite loss, got nan" in page.words
    assert "worker lost, run again" in page.words
    assert "8 complete, 1 given up, 1 failed, 1 worker lost, run again, 1 running" in page.words


def test_draws_every_kind_of_chart(page):
    drawn = page.specs
    kinds = {name.split("-")[0] for name in drawn}
    assert kinds == {"history", "epochs", "importance", "slices", "contours", "sensitivity"}
    assert list(drawn["history-0"]["data"][0]["y"]) == pytest.approx([0.5 + 0.05 * n for n in range(8)])
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert set(drawn) <= ids


def test_given_up_trials_are_grey_and_logarithmic_ranges_are_drawn_so(page):
    drawn = page.specs
    inks = {trace["name"]: trace["line"]["color"] for trace in drawn["epochs-0"]["data"]}
    assert inks["trial 8, given up"] == "var(--quiet)"
    assert inks["trial 7, complete"] == "var(--series-1)"  # the best
    assert inks["trial 0, complete"] == "var(--series-0)"
    slices, contours = (
        {spec["layout"]["xaxis"]["title"]["text"]: spec["layout"] for name, spec in drawn.items() if kind in name}
        for kind in ("slices", "contours")
    )
    assert slices["lr"]["xaxis"]["type"] == "log"
    assert slices["model"]["xaxis"]["ticktext"][0] == "mlp"
    titles = [layout[axis]["title"]["text"] for layout in contours.values() for axis in ("xaxis", "yaxis")]
    assert "model" not in titles  # of choices


def test_names_are_text_and_never_markup(page):
    assert not [tag for tag, attributes in page.elements if tag == "script" and "alert" in str(attributes)]
    assert "<script>alert" in page.words
    assert not any("<script>alert" in str(spec) for spec in page.specs.values())


def test_several_goals_have_a_front(tmp_path):
    found = findings(Goal(), Goal(score="loss", direction="maximize"))
    file = write_search(found, tmp_path / "search.html", ["name: x\n"] * len(found.best))
    page = read(file)
    (front,) = [spec for name, spec in page.specs.items() if name.startswith("front")]
    assert front["data"][-1]["customdata"] == [one.number for one in found.best] == list(range(8))
    assert "Pareto front: trials that no other beats in everything, and their values." in page.tables


def test_a_goal_on_test_images_is_called_what_it_is(tmp_path):
    goal = Goal(checks=(CHECKS["clean"](),), split="test")
    page = read(write_search(findings(goal), tmp_path / "search.html", ["a: b\n"]))
    assert "too good to report" in page.words


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_draws_without_a_word_of_complaint_and_fits_the_screen(tmp_path, width):
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the path")
    found = findings(Goal(), Goal(score="loss"))
    file = write_search(found, tmp_path / "search.html", ["name: x\n"] * len(found.best))
    trouble = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or trouble.append(request.url))
        page.goto(file.as_uri(), timeout=120_000)
        assert page.locator(".plot .main-svg").count() >= page.locator(".plot").count() > 10
        assert page.locator(".panel:visible").count() == 1
        size = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(size) == 0
        browser.close()
    assert trouble == []
