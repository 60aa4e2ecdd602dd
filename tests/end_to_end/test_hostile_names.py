"""Names of a stranger, from the data set and the recipe through every command to the page in a browser."""

import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from holdfast.results import Ledger
from tests import hostile
from tests.end_to_end.command import good, holdfast, refused
from tests.report.reading import read

RECIPE = """
name: names
data: {source: {folder: {path: photos}}, subset: 26, test_subset: 26}
model: {mlp: {hidden: [8]}}
train: {epochs: 1, batch_size: 8, optimizer: {sgd: {lr: 0.1}}}
checks:
  - clean
  - gaussian_noise: 0.1
  - pgd: {threat: {linf: 0.2}, steps: 3}
  - transfer: {attack: {pgd: {threat: {linf: 0.2}, steps: 2}}, source: %s}
  - common: {kind: fog, severity: 1}
evaluate: {block: 26, gallery: 26}
variants:
  1=1+1 ... -: {}
  "2": {train: {epochs: 2}}
"""
SHOWN = ("\\x1b[2J\\x1b]0;pwned\\x07", "\\u202egnp.exe\\u2066")
"""What people see of control characters."""

FIRST, SECOND = "runs/names/1=1+1 ... -/seed-0", "runs/names/2/seed-0"
SOURCE = f"{hostile.SCRIPTS[0]}.safetensors"
FOLDER = ["--kinds", "fog", "--severities", "1", "--format", "folder"]


def write_folder(path):
    """Two images of each class for training and for tests, in directories and files of hostile names."""
    generator = np.random.default_rng(0)
    for split in ("train", "test"):
        for number, name in enumerate(hostile.NAMES):
            directory = path / split / name
            directory.mkdir(parents=True)
            for copy in range(2):
                pixels = generator.integers(0, 128, (8, 8)) + 8 * number
                Image.fromarray(pixels.astype(np.uint8)).save(directory / f"{hostile.SCRIPTS[copy]}.png")


def write_npz(path):
    names = [*hostile.PATHS, *hostile.CONTROLS]
    y = np.arange(18) % len(names)
    x = np.random.default_rng(0).integers(0, 256, (18, 8, 8)).astype(np.uint8)
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y, class_names=np.array(names))


def make(place):
    """A data set, a recipe of two variants with all its checks, run to the end."""
    place.mkdir()
    write_folder(place / "photos")
    write_npz(place / "paths.npz")
    (place / "names.yaml").write_text(RECIPE % json.dumps(SOURCE), encoding="utf-8")
    first = holdfast("train", "names.yaml", "--out", "first", cwd=place)
    assert first.code == 0, first.err
    shutil.copy(place / "first/names/2/seed-0/last.safetensors", place / SOURCE)
    return holdfast("run", "names.yaml", cwd=place)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("outside") / "place"
    done = make(place)
    assert done.code == 0, done.err
    return place, done


@pytest.fixture(scope="module")
def foreign_runs(made):
    """The same runs from a stranger, who chose names of directories and runs."""
    place, _ = made
    directories = []
    for number, source in enumerate((FIRST, SECOND)):
        directory = place / "from elsewhere" / (hostile.SCRIPTS[number] + hostile.CONTROLS[number])
        shutil.copytree(place / source, directory)
        for kept in directory.rglob("checksums.txt"):
            kept.unlink()
        facts = json.loads((directory / "run.json").read_text())
        facts["name"] = facts["recipe"] = hostile.SCRIPTS[number + 2] + hostile.CONTROLS[2 - number]
        facts["variant"] = hostile.FORMULAS[number]
        facts["data"]["name"] = facts["model"]["name"] = hostile.CONTROLS[0]
        facts["versions"] = {hostile.SCRIPTS[0]: hostile.CONTROLS[1]}
        (directory / "run.json").write_text(json.dumps(facts))
        directories.append(directory)
    return directories


def clean(done, codes=(0, 1)):
    """What a command printed, which may have no control characters; 1 is the code of an audit with a finding."""
    for text in (done.out, done.err):
        odd = hostile.RAW.search(text)
        assert odd is None, text[max(0, odd.start() - 60) : odd.end() + 60]
    assert done.code in codes, done.err
    return done.out


def everything(place):
    return {str(path.relative_to(place)) for path in place.rglob("*")}


def outside(place):
    """What is beside the place, and in it by a command of a name."""
    return {path.name for path in place.parent.iterdir()}, list(place.rglob("pwned*"))


COMMANDS = {
    "report": ["report", FIRST, SECOND, "--out", "page.html"],
    "compare": ["compare", FIRST, SECOND, "--out", "compared.html"],
    "select": ["select", "runs", "--by", "linf", "--accuracy", "0.5", "--within", "0.5", "--per", "data.source"],
    "show recipe": ["show", "names.yaml"],
    "show weights": ["show", SOURCE],
    "list": ["list", "checks"],
    "mce": ["mce", "runs"],
    "evaluate": ["evaluate", SECOND],
    "attack": ["attack", SECOND, "--attack", "fgsm", "--norm", "linf", "--eps", "0.1", "--save-images", "shown"],
    "attack to arrays": ["attack", SECOND, "--attack", "fgsm", "--norm", "l2", "--eps", "1", "--save-npz", "a.npz"],
    "certify": ["certify", SECOND, "--method", "smoothing", "--sigma", "0.2", "--n", "100"],
    "audit": ["audit", SECOND],
    "analyse gradient-norm": ["analyse", "gradient-norm", FIRST, SECOND],
    "analyse thickness": ["analyse", "thickness", SECOND, "--points", "4", "--steps", "2"],
    "analyse classes": ["analyse", "classes", SECOND],
    "analyse neighbours": ["analyse", "neighbours", SECOND, "--k", "1,3"],
    "analyse similarity": ["analyse", "similarity", SECOND, "--others", FIRST],
    "analyse confidences": ["analyse", "confidences", SECOND],
    "corrupt": ["corrupt", "photos", "--out", "fogged", *FOLDER],
    "corrupt paths": [
        "corrupt",
        "paths.npz",
        "--out",
        "bad",
        "--kinds",
        "fog",
        "--severities",
        "1",
        "--format",
        "folder",
    ],
    "data info": ["data", "info", "photos"],
    "data info of arrays": ["data", "info", "paths.npz"],
    "data make": ["data", "make", "small.npz", "--from", "photos"],
}


def test_a_run_prints_no_control_characters_and_writes_nothing_elsewhere(made):
    place, done = made
    clean(done, codes=(0,))
    assert outside(place) == ({"place"}, [])
    labels = set(Ledger(place / FIRST / "ledger").read()["check"])
    assert any(SOURCE in label for label in labels)


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_print_no_control_characters_and_write_nothing_elsewhere(made, tmp_path, name, as_json):
    place = tmp_path / "outside" / "place"
    shutil.copytree(made[0], place)
    command = COMMANDS[name]
    if as_json and name == "show recipe":
        pytest.skip("has no --json")
    out = clean(holdfast(*command, *(["--json"] if as_json else []), cwd=place))
    if as_json:
        json.loads(out, parse_constant=lambda number: pytest.fail(number))
    assert outside(place) == ({"place"}, [])
    new = everything(place) - everything(made[0])
    allowed = ("runs/", "page.html", "compared.html", "shown", "a.npz", "fogged", "bad", "small.npz")
    assert not [path for path in new if not path.startswith(allowed)]


@pytest.mark.slow
def test_runs_of_a_stranger_cannot_steer_the_terminal(made, foreign_runs):
    place, _ = made
    first, second = foreign_runs
    commands = [
        ["report", first, second, "--out", "foreign.html"], ["compare", first, second], ["mce", first, second],
        ["select", first, second, "--by", "linf", "--accuracy", "0.5", "--within", "0.5"],
        ["evaluate", first], ["audit", first], ["analyse", "gradient-norm", first, second],
        ["show", first / "last.safetensors"],
    ]  # fmt: skip
    for command in commands:
        clean(holdfast(*command, cwd=place))
        if command[0] != "show":
            json.loads(clean(holdfast(*command, "--json", cwd=place)))
    assert outside(place) == ({"place"}, [])


def test_a_coloured_terminal_gets_colours_alone(made, foreign_runs, monkeypatch):
    place, _ = made
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = holdfast("compare", *foreign_runs, cwd=place)
    assert (done.code, "\x1b[" in done.out) == (0, True)
    assert hostile.RAW.search(re.sub(r"\x1b\[[0-9;]*m", "", done.out)) is None


def pages(place):
    return sorted(path for path in place.rglob("*.html"))


def test_names_never_become_elements_or_attributes_of_a_page(made, foreign_runs):
    place, _ = made
    good("report", *foreign_runs, "--out", "foreign.html", cwd=place)
    assert len(pages(place)) >= 2
    for path in pages(place):
        page = read(path)
        assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
        sources = [a.get(key) or "" for _, a in page.elements for key in ("src", "href")]
        assert not [source for source in sources if source and not source.startswith(("#", "data:image/png"))]
        assert hostile.RAW.search(page.text) is None
        assert all(hostile.RAW.search(value or "") is None for _, a in page.elements for value in a.values())
        for spec in page.specs.values():
            assert hostile.RAW.search(json.dumps(spec, ensure_ascii=False)) is None
    text = read(place / "foreign.html").text
    for name in (*hostile.SCRIPTS, *hostile.FORMULAS, *SHOWN):
        assert name in text


@pytest.mark.parametrize("name", ["<img src=x>", "../x", "/x", "a\x1b[2J", "a\u202eb", "a\nb", "=1+1", "..", "a\x00b"])
def test_names_of_recipes_and_variants_that_are_no_names_of_directories_are_refused(tmp_path, name):
    for field in ("name", "variant"):
        names = {"name": "ok", "variant": "ok", field: name}
        text = f"name: {json.dumps(names['name'])}\nvariants: {{{json.dumps(names['variant'])}: {{}}}}\n"
        text += "data: digits\nmodel: linear\nchecks: [clean]\n"
        (tmp_path / "bad.yaml").write_text(text)
        for verb in ("run", "show"):
            line = refused(verb, "bad.yaml", cwd=tmp_path)
            assert "name: letters, digits and . = + - _ with / between parts expected" in line
            assert hostile.RAW.search(line) is None
    assert {path.name for path in tmp_path.iterdir()} == {"bad.yaml"}


@pytest.mark.parametrize("name", hostile.NAMES)
def test_files_of_hostile_names_are_refused_in_one_line(tmp_path, name):
    (tmp_path / f"{name}.safetensors").write_bytes(b"nothing")
    (tmp_path / f"{name}.npz").write_bytes(b"nothing")
    (tmp_path / f"{name}.yaml").write_text("no: recipe")
    (tmp_path / name).mkdir()
    for command in (
        ["show", f"./{name}.safetensors"], ["data", "info", f"./{name}.npz"], ["run", f"./{name}.yaml"],
        ["report", f"./{name}"], ["evaluate", f"./{name}"], ["list", f"x{name}"], ["data", "fetch", f"x{name}"],
    ):  # fmt: skip
        assert hostile.RAW.search(refused(*command, cwd=tmp_path)) is None


@pytest.fixture(name="page")
def _page():
    """A page that collects dialogs, errors and requests to elsewhere in `page.trouble`."""
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the path")
    with api.sync_playwright() as playwright:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.trouble = []
        page.on("dialog", lambda dialog: (page.trouble.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on("console", lambda message: page.trouble.append(message.text))
        page.on(
            "request",
            lambda request: request.url.startswith(("file:", "data:", "blob:")) or page.trouble.append(request.url),
        )
        yield page
        browser.close()


@pytest.mark.browser
def test_names_do_nothing_in_a_browser_and_are_shown_as_they_are(made, foreign_runs, page):
    place, _ = made
    good("report", *foreign_runs, "--out", "foreign.html", cwd=place)
    good("compare", FIRST, SECOND, "--out", "compared.html", cwd=place)
    for path in pages(place):
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((item) => { item.open = true; })")
        for plot in page.locator(".plot").all():
            plot.scroll_into_view_if_needed()
            plot.hover()
        for row in page.locator("td, th, img, summary").all()[:200]:
            row.dispatch_event("mouseover")
        page.wait_for_timeout(200)
        assert page.evaluate("window.__pwned") is None
        assert page.locator("img[src='x'], svg[onload], a[href^='javascript']").count() == 0
        assert page.trouble == []
    page.goto((place / "foreign.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((item) => { item.open = true; })")
    text = page.locator("body").evaluate("(body) => body.textContent")
    for name in (*hostile.SCRIPTS, *hostile.FORMULAS, *SHOWN):
        assert name in text
