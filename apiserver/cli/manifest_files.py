"""Reads the manifests in files, for subcommands that need no server."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from apiserver.cli.argument_parser import UsageError

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
DOCUMENTS_MAX: Final = 100_000
SUFFIXES: Final = (".yaml", ".yml", ".json")
_STDIN: Final = "-"
# Where a document ends: nothing in it may begin a line so.
_MARKER: Final = re.compile(rb"^---(?=[ \t\r\n]|$).*\n?", re.MULTILINE)
# Where a JSON document begins.
_VALUE: Final = re.compile(r"[^ \t\r\n]")


class Manifest(NamedTuple):
    """One document of a file.

    number: which of its documents, from 1. text: as the file has it.
    is_found: whether the file was found in a directory, rather than named.
    """

    file: str
    number: int
    text: bytes
    is_found: bool

    @property
    def place(self) -> str:
        return f"{self.file}, document {self.number}"


def manifests(
    command: str, files: Iterable[str], templates: list[str], *, recursive: bool = False
) -> Iterator[Manifest]:
    """Yields the manifests in files and directories.

    command: named in errors. templates: gets the files that are skipped, as they are templates of Helm
    charts. recursive: whether directories in directories are searched, too.
    Raises UsageError.
    """
    count, names = 0, list(files)
    require_stdin_once(command, names)
    for name in names:
        for path in _paths(name, recursive):
            if path != name and _is_chart_template(Path(path)):
                templates.append(path)
                continue
            for number, text in enumerate(documents_in(_content(command, path)), start=1):
                if (count := count + 1) > DOCUMENTS_MAX:
                    raise UsageError(f"{command}: there are more than {DOCUMENTS_MAX} manifests")
                yield Manifest(path, number, text, is_found=path != name)


def require_stdin_once(command: str, files: Sequence[str]) -> None:
    """Refuse to read standard input more than once. Raises UsageError."""
    if files.count(_STDIN) > 1:
        raise UsageError(f"{command}: - can be used only once, because standard input can be read only once")


def is_manifest(document: Any) -> bool:
    """Whether a document has a type. Directories also hold other YAML files, like the values of charts."""
    return isinstance(document, dict) and all(
        isinstance(document.get(name), str) and document[name] for name in ("apiVersion", "kind")
    )


def _paths(name: str, recursive: bool) -> Iterator[str]:
    path = Path(name)
    if name == _STDIN or not path.is_dir():
        yield name
        return
    found = path.rglob("*") if recursive else path.iterdir()
    for each in sorted(found):
        if each.suffix in SUFFIXES and each.is_file():
            yield str(each)


def _is_chart_template(path: Path) -> bool:
    """Whether a file is below the folder `templates` of a Helm chart, whose files need not be YAML."""
    return any(each.name == "templates" and (each.parent / "Chart.yaml").is_file() for each in path.parents)


def _content(command: str, name: str) -> bytes:
    try:
        if name == _STDIN:
            if sys.stdin is None:
                raise UsageError(f"{command}: there is no standard input")
            return _at_most(command, sys.stdin.buffer, name)
        with Path(name).open("rb") as file:
            return _at_most(command, file, name)
    except OSError as error:
        raise UsageError(f"{command}: {name}: {error.strerror}") from None


def _at_most(command: str, file: IO[bytes], name: str) -> bytes:
    content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(f"{command}: {name} has more than {FILE_BYTES_MAX} bytes")
    return content


def documents_in(content: bytes) -> Iterator[bytes]:
    """Yields the texts of the documents in a file, without those that are empty."""
    for text in _MARKER.split(content):
        if text.lstrip().startswith(b"{"):
            yield from _json_documents(text)
        elif any(line.strip() and not line.lstrip().startswith(b"#") for line in text.splitlines()):
            yield text


def _json_documents(text: bytes) -> Iterator[bytes]:
    """Yields the texts of JSON documents without a marker in between, which kubectl reads, too.

    What is not JSON is one document: YAML also has objects in braces.
    """
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        yield text
        return
    decoder, end = json.JSONDecoder(), 0
    while start := _VALUE.search(decoded, end):
        try:
            _, after = decoder.raw_decode(decoded, start.start())
        except (ValueError, RecursionError):
            yield decoded[end:].encode()
            return
        following = _VALUE.search(decoded, after)
        if following and following[0] in ".#":
            # It is YAML, with the marker of the document's end, or with a comment.
            yield decoded[end:].encode()
            return
        yield decoded[start.start() : after].encode()
        end = after
