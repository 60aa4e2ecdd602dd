"""Downloads of published data sets: resumed where they stopped, checked, and put in place in one step."""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.data.files import FILES, File
from holdfast.data.roots import data_root
from holdfast.errors import DataError, unknown

_CHUNK = 1 << 18
_TIMEOUT = 60.0

SCHEMES = ("https",)
"""Allowed schemes of addresses, also of those that servers redirect to."""


@dataclass(frozen=True)
class Progress:
    """Progress of a file's download.

    Args:
        file: its name.
        done: bytes on disk.
        total: bytes in total.
    """

    file: str
    done: int
    total: int


def fetch(name: str, root: Path | None = None, files: Mapping[str, tuple[File, ...]] = FILES) -> Iterator[Progress]:
    """Download a data set to its directory of the data root; complete files are skipped.

    A transfer that breaks off leaves `FILE.part`, from which the next call resumes. Connections are encrypted, and the
    size and SHA-256 of a file are known in advance.

    Raises:
        DataError: when the data set is unknown, a file cannot be completed, or a server requires another protocol.
    """
    if name not in files:
        raise DataError(f"fetch: {unknown(name, files)}")
    directory = data_root(root) / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{directory}: cannot be made: {error.strerror}") from error
    for file in files[name]:
        yield from _fetch_file(file, directory / file.name)


def _fetch_file(file: File, target: Path) -> Iterator[Progress]:
    if target.exists():
        _verify(file, target, f"delete {target} to download it again")
        yield Progress(file.name, file.size, file.size)
        return
    part = target.with_name(f"{target.name}.part")
    if part.exists() and part.stat().st_size > file.size:
        part.unlink()
    done = part.stat().st_size if part.exists() else 0
    if done < file.size:
        yield from _transfer(file, part, done)
    try:
        _verify(file, part, "the download is removed, repeat to try again")
    except DataError:
        part.unlink()
        raise
    os.replace(part, target)
    yield Progress(file.name, file.size, file.size)


def _verify(file: File, path: Path, remedy: str) -> None:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != file.sha256:
        raise DataError(f"{path}: expected SHA-256 {file.sha256}, got {digest}; {remedy}")


def _transfer(file: File, part: Path, done: int) -> Iterator[Progress]:
    """Append the missing bytes to the partial file, or start over when the server cannot resume."""
    response = _open(file, done)
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            done = 0
        with part.open("ab" if done else "wb", buffering=0) as out:
            for chunk in _chunks(file, response):
                if done == 0 and _is_page(response, chunk):
                    part.unlink()
                    raise DataError(f"{file.url}: expected data, got a web page; download it by hand to {part.parent}")
                done += len(chunk)
                if done > file.size:
                    part.unlink()
                    raise DataError(f"{file.url}: expected {file.size} bytes, got more; the download is removed")
                _write(out, chunk, part)
                yield Progress(file.name, done, file.size)
    if done < file.size:
        raise DataError(
            f"{file.url}: broke off after {done} of {file.size} bytes; repeat the command to continue from there"
        )


def _open(file: File, start: int) -> http.client.HTTPResponse:
    """A response that begins at `start`, status 206, or at the beginning of the file."""
    headers = {"User-Agent": "holdfast"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        require_scheme(file.url, file.url)
        request = urllib.request.Request(file.url, headers=headers)
        response: http.client.HTTPResponse = urllib.request.build_opener(Redirects).open(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if start and error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return _open(file, 0)
        raise DataError(f"{file.url}: the server answered {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DataError(f"{file.url}: no connection: {reason}") from error
    if response.status == http.client.PARTIAL_CONTENT and not _continues(response, start, file.size):
        response.close()
        return _open(file, 0)
    return response


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to another address only where that is encrypted as well."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The request to the new address."""
        require_scheme(newurl, f"{req.full_url}: redirects to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def require_scheme(url: str, where: str) -> None:
    """Refuse an address that is not encrypted."""
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in SCHEMES:
        raise DataError(f"{where}: expected an address that begins with {SCHEMES[0]}://, got {scheme or 'none'}://")


def _continues(response: http.client.HTTPResponse, start: int, size: int) -> bool:
    stated = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", response.headers.get("Content-Range", ""))
    return stated is not None and int(stated[1]) == start and stated[3] in (str(size), "*")


def _chunks(file: File, response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The bytes that the server sends, until it stops for whatever reason; the caller counts them."""
    try:
        while chunk := response.read(_CHUNK):
            yield chunk
    except http.client.IncompleteRead as error:
        if error.partial:
            yield error.partial
    except (OSError, http.client.HTTPException):
        return


def _is_page(response: http.client.HTTPResponse, beginning: bytes) -> bool:
    return response.headers.get_content_type() == "text/html" or beginning.lstrip()[:1] == b"<"


def _write(out: BinaryIO, chunk: bytes, part: Path) -> None:
    left = memoryview(chunk)
    try:
        while left:
            left = left[out.write(left) :]
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DataError(
                f"{part}: no space left on the device; make room and repeat the command to continue"
            ) from error
        raise DataError(f"{part}: cannot be written: {error.strerror}") from error
