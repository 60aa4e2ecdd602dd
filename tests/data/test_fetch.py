"""Downloads from a server on this machine that can misbehave in every known way."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from holdfast.data import DATASETS, FILES, File, Progress
from holdfast.data import fetch as fetch_any
from holdfast.data.fetch import Redirects
from holdfast.errors import DataError

CONTENT = bytes(range(256)) * 4000


class Server(ThreadingHTTPServer):
    """Serves CONTENT as the test says and remembers which ranges were asked for."""

    daemon_threads = True
    ranges = True
    cut: int | None = None
    status: int | None = None
    wrong_range = False
    kind = "application/octet-stream"
    content = CONTENT
    elsewhere: str | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/data.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, asked = self.server, self.headers["Range"]
        server.asked.append(asked)
        if server.status is not None and (server.status != 416 or asked):
            self.send_error(server.status)
            return
        if server.elsewhere is not None and self.path == "/data.bin":
            self.send_response(302)
            self.send_header("Location", server.elsewhere)
            self.end_headers()
            return
        start = int(re.findall(r"\d+", asked)[0]) if asked and server.ranges else 0
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            first = start + 1 if server.wrong_range else start
            self.send_header("Content-Range", f"bytes {first}-{len(server.content) - 1}/{len(server.content)}")
        self.send_header("Content-Type", server.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if server.cut is None else body[: server.cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def _unencrypted(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The server on this machine has no certificate."""
    if "https" not in request.node.name:
        # the package has a function of the same name
        monkeypatch.setattr(sys.modules[Redirects.__module__], "SCHEMES", ("http",))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=partial(running.serve_forever, poll_interval=0.01))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def fetch(server: Server, root: Path, content: bytes = CONTENT) -> list[Progress]:
    file = File(server.url, len(content), hashlib.sha256(content).hexdigest())
    return list(fetch_any("toy", root, {"toy": (file,)}))


def files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "toy").iterdir()}


def test_a_file_arrives_whole_and_progress_only_grows(server: Server, tmp_path: Path) -> None:
    steps = fetch(server, tmp_path)
    assert files(tmp_path) == {"data.bin": CONTENT}
    assert steps[-1] == Progress("data.bin", len(CONTENT), len(CONTENT))
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert len(steps) > 2


def test_a_whole_file_is_not_fetched_again_and_a_wrong_one_is_left_alone(server: Server, tmp_path: Path) -> None:
    fetch(server, tmp_path)
    assert fetch(server, tmp_path) == [Progress("data.bin", len(CONTENT), len(CONTENT))]
    assert len(server.asked) == 1
    (tmp_path / "toy" / "data.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"data\.bin: expected SHA-256 .*, got .*; delete .*data\.bin to download"):
        fetch(server, tmp_path)
    assert files(tmp_path) == {"data.bin": b"mine"}


def test_a_broken_transfer_is_resumed_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.cut = 300_000
    with pytest.raises(DataError, match=r"broke off after 300000 of 1024000 bytes; repeat the command to continue"):
        fetch(server, tmp_path)
    assert files(tmp_path) == {"data.bin.part": CONTENT[:300_000]}
    server.cut = None
    fetch(server, tmp_path)
    assert server.asked == [None, "bytes=300000-"]
    assert files(tmp_path) == {"data.bin": CONTENT}


def test_a_server_that_ignores_ranges_makes_it_start_over(server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "data.bin.part").write_bytes(b"x" * 1000)
    server.ranges = False
    fetch(server, tmp_path)
    assert files(tmp_path) == {"data.bin": CONTENT}
    assert server.asked == ["bytes=1000-"]


def test_a_range_other_than_the_one_asked_for_makes_it_start_over(server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "data.bin.part").write_bytes(CONTENT[:1000])
    server.wrong_range = True
    fetch(server, tmp_path)
    assert files(tmp_path) == {"data.bin": CONTENT}
    assert server.asked == ["bytes=1000-", None]


def test_a_range_the_server_refuses_makes_it_start_over(server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "data.bin.part").write_bytes(CONTENT[:1000])
    server.status = 416
    fetch(server, tmp_path)
    assert files(tmp_path) == {"data.bin": CONTENT}


def test_a_complete_or_too_long_part_needs_no_or_a_new_transfer(server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "data.bin.part").write_bytes(CONTENT)
    fetch(server, tmp_path)
    assert server.asked == []
    (tmp_path / "toy" / "data.bin").rename(tmp_path / "toy" / "data.bin.part")
    with (tmp_path / "toy" / "data.bin.part").open("ab") as part:
        part.write(b"more")
    fetch(server, tmp_path)
    assert server.asked == [None]


def test_wrong_content_is_removed(server: Server, tmp_path: Path) -> None:
    server.content = b"y" * len(CONTENT)
    with pytest.raises(DataError, match=r"expected SHA-256 [0-9a-f]{64}, got [0-9a-f]{64}; the download is removed"):
        fetch(server, tmp_path)
    assert files(tmp_path) == {}


def test_more_than_was_promised_is_removed(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT + b"!"
    with pytest.raises(DataError, match=r"expected 1024000 bytes, got more"):
        fetch(server, tmp_path)
    assert files(tmp_path) == {}


@pytest.mark.parametrize(
    ("kind", "content"), [("text/html; charset=utf-8", b"Sign in"), ("application/gzip", b"\n<!doctype html>")]
)
def test_a_web_page_is_no_data(server: Server, tmp_path: Path, kind: str, content: bytes) -> None:
    server.kind, server.content = kind, content
    with pytest.raises(DataError, match="expected data, got a web page"):
        fetch(server, tmp_path)
    assert files(tmp_path) == {}


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_the_servers_refusal_is_passed_on(server: Server, tmp_path: Path, status: int) -> None:
    server.status = status
    with pytest.raises(DataError, match=f"data.bin: the server answered {status} "):
        fetch(server, tmp_path)
    assert files(tmp_path) == {}


def test_an_address_without_https_is_refused_before_anything_is_asked(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.bin: expected an address that begins with https://, got http://"):
        fetch(server, tmp_path)
    assert server.asked == []
    assert files(tmp_path) == {}


@pytest.mark.parametrize("target", ["http://example.org/data.bin", "ftp://example.org/data.bin", "file:///etc/passwd"])
def test_a_redirect_away_from_https_is_refused(target: str) -> None:
    request = urllib.request.Request("https://example.org/data.bin")
    with pytest.raises(DataError, match=rf"redirects to {target}: expected an address that begins with https://"):
        Redirects().redirect_request(request, None, 302, "Found", {}, target)
    again = Redirects().redirect_request(request, None, 302, "Found", {}, "https://example.net/data.bin")
    assert again is not None
    assert again.full_url == "https://example.net/data.bin"


def test_redirects_are_followed_to_the_same_protocol_and_to_no_other(server: Server, tmp_path: Path) -> None:
    server.elsewhere = server.url.replace("data.bin", "moved.bin")
    fetch(server, tmp_path)
    assert files(tmp_path) == {"data.bin": CONTENT}
    (tmp_path / "toy" / "data.bin").unlink()
    for target in ("https://127.0.0.1:1/data.bin", "ftp://127.0.0.1:1/data.bin"):
        server.elsewhere = target
        with pytest.raises(DataError, match=f"data.bin: redirects to {target}: expected an address that begins with"):
            fetch(server, tmp_path)
    assert files(tmp_path) == {}


def test_no_connection(tmp_path: Path) -> None:
    gone = Server()
    gone.server_close()
    with pytest.raises(DataError, match=r"data\.bin: no connection: "):
        fetch(gone, tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "data.bin.part").symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"data\.bin\.part: no space left on the device; make room and repeat"):
        fetch(server, tmp_path)


def test_a_directory_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "toy").touch()
    with pytest.raises(DataError, match="toy: cannot be made"):
        fetch(server, tmp_path)


def test_unknown_data_sets_are_suggested() -> None:
    with pytest.raises(DataError, match=r"^fetch: unknown name 'cifar'; known: .*Did you mean 'cifar10'"):
        list(fetch_any("cifar"))


def test_the_table_is_well_formed() -> None:
    assert set(FILES) <= set(DATASETS)
    everything = [file for files in FILES.values() for file in files]
    assert len({file.sha256 for file in everything}) == len({file.url for file in everything}) == len(everything) == 17
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size > 0 for file in everything)
    assert all(file.url.startswith("https://") for file in everything)
