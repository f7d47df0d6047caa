"""`apiserver convert`: writes manifests in other versions of their types. No server is asked."""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import yaml as pyyaml

from apiserver.catalogue.offline_conversion import ConvertedManifest, ManifestConverter, NotConvertible
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.flag_values import release
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.printing import print_json, print_warning
from apiserver.releases.emulation import DEFAULT_RELEASE, EmulatedRelease, InvalidEmulation
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.wire import yaml
from apiserver.wire.yaml import InvalidYaml

_ABOUT: Final = """
Converts manifests to another version of their types: the one that --output-version names, if a type has it,
or the one that a Kubernetes release prefers. Manifests that need no conversion are printed unchanged.
Comments of converted manifests are kept if ruamel.yaml is installed (pip install ruamel.yaml). Defaults
that the new version does not have are written out. stderr names the fields that are lost, the files that
cannot be read, and the documents in directories that are skipped because they are not manifests.

The exit code is 1 if a manifest cannot be converted, or with --strict if a field is lost.
"""
CONVERTED, NOT_CONVERTED = 0, 1
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
DOCUMENTS_MAX: Final = 100_000
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_STDIN: Final = "-"
# Where a document ends: nothing in it may begin a line so.
_MARKER: Final = re.compile(rb"^---(?=[ \t\r\n]|$).*\n?", re.MULTILINE)


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


@dataclass
class _Results:
    """The converted manifests, and how many documents of which files are no manifests."""

    strict: bool
    texts: list[bytes] = field(default_factory=list)
    documents: list[Any] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    has_failed: bool = False

    def tell(self, place: str, text: str, *, fails: bool) -> None:
        print_warning(f"apiserver convert: {place}: {text}")
        self.has_failed |= fails


def run(arguments: Sequence[str]) -> int:
    """Convert, and print the manifests. Returns the exit code. Raises UsageError; exits for --help."""
    given = parser().parse_args(arguments)
    if not given.files:
        raise UsageError("convert: -f names no file; - is the standard input")
    try:
        minor = EmulatedRelease.of(given.release).minor
    except InvalidEmulation as error:
        raise UsageError(f"convert: {error}") from None
    converter = ManifestConverter(BuiltinSchemas(DEFAULT_RELEASE.version))
    if given.output_version and not converter.has_version(given.output_version):
        raise UsageError(f"convert: --output-version: no release of Kubernetes has {given.output_version}")
    results = _Results(given.strict)
    for manifest in _manifests(given.files, given.recursive):
        _convert(converter, manifest, given, minor, results)
    for file, count in results.skipped.items():
        documents = (
            "1 document that is not a manifest" if count == 1 else f"{count} documents that are not manifests"
        )
        results.tell(file, f"skipped {documents} (no apiVersion and kind)", fails=False)
    _print(results, as_json=given.output == "json")
    return NOT_CONVERTED if results.has_failed else CONVERTED


# ---- reading


def _manifests(files: Iterable[str], recursive: bool) -> Iterator[Manifest]:
    """Yields the manifests in files. Raises UsageError."""
    count = 0
    for name in files:
        for path in _paths(name, recursive):
            for number, text in enumerate(_documents(_content(path)), start=1):
                if (count := count + 1) > DOCUMENTS_MAX:
                    raise UsageError(f"convert: there are more than {DOCUMENTS_MAX} manifests")
                yield Manifest(path, number, text, is_found=path != name)


def _paths(name: str, recursive: bool) -> Iterator[str]:
    path = Path(name)
    if name == _STDIN or not path.is_dir():
        yield name
        return
    found = path.rglob("*") if recursive else path.iterdir()
    for each in sorted(found):
        if each.suffix in _SUFFIXES and each.is_file():
            yield str(each)


def _content(name: str) -> bytes:
    try:
        if name == _STDIN:
            if sys.stdin is None:
                raise UsageError("convert: there is no standard input")
            return _at_most(sys.stdin.buffer, name)
        with Path(name).open("rb") as file:
            return _at_most(file, name)
    except OSError as error:
        raise UsageError(f"convert: {name}: {error.strerror}") from None


def _at_most(file: IO[bytes], name: str) -> bytes:
    content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(f"convert: {name} has more than {FILE_BYTES_MAX} bytes")
    return content


def _documents(content: bytes) -> Iterator[bytes]:
    """Yields the texts of the documents in a file, without those that are empty."""
    for text in _MARKER.split(content):
        if any(line.strip() and not line.lstrip().startswith(b"#") for line in text.splitlines()):
            yield text


# ---- converting


def _convert(
    converter: ManifestConverter, manifest: Manifest, given: argparse.Namespace, minor: int, results: _Results
) -> None:
    place = manifest.place
    try:
        document, duplicates = yaml.load(manifest.text)
    except InvalidYaml as error:
        results.tell(place, str(error), fails=True)
        return
    if document is None:
        return
    if manifest.is_found and not _is_manifest(document):
        results.skipped[manifest.file] += 1
        return
    if not isinstance(document, dict):
        results.tell(place, "it is not an object", fails=True)
        results.texts.append(manifest.text)
        return
    for each in duplicates:
        results.tell(place, f"{each}; the last one counts", fails=results.strict)

    def one(each: Any, where: str) -> Any:
        if not isinstance(each, dict):
            results.tell(where, "it is not an object", fails=True)
            return each
        try:
            converted = converter.convert(each, given.output_version, minor)
        except NotConvertible as error:
            results.tell(where, f"{error}; it is left as it is", fails=True)
            return each
        _tell(converted, each, where, results)
        return converted.document

    if isinstance(items := document.get("items"), list) and str(document.get("kind", "")).endswith("List"):
        new: Any = {**document, "items": [one(each, f"{place}, item {n}") for n, each in enumerate(items)]}
        new = _retyped_list(new)
    else:
        new = one(document, f"{place}, {_name(document)}")
    results.documents.append(new)
    results.texts.append(manifest.text if new == document else _as_yaml(manifest.text, new))


def _is_manifest(document: Any) -> bool:
    """Whether a document has a type. Directories also hold other YAML files, like the values of charts."""
    return isinstance(document, dict) and all(
        isinstance(document.get(name), str) and document[name] for name in ("apiVersion", "kind")
    )


def _tell(converted: ConvertedManifest, document: Any, where: str, results: _Results) -> None:
    version = f"{document['apiVersion']} {document['kind']}"
    for path in converted.unknown:
        results.tell(where, f"{version} has no field {path}; it is left out", fails=results.strict)
    for path in converted.lost:
        target = converted.document["apiVersion"]
        results.tell(where, f"{path} has no place in {target}; it is not kept", fails=results.strict)
    for error in converted.refused:
        results.tell(where, f"{converted.document['apiVersion']} refuses {error}", fails=results.strict)


def _name(document: Any) -> str:
    meta = document.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return f"{document.get('kind', 'object')}/{name}" if name else str(document.get("kind", "object"))


def _retyped_list(document: Any) -> Any:
    """Returns a list of one kind in the version of its items; one of several kinds as it is."""
    versions = [each.get("apiVersion") for each in document["items"] if isinstance(each, dict)]
    if document.get("kind") == "List" or not versions or versions.count(versions[0]) != len(versions):
        return document
    return {**document, "apiVersion": versions[0]}


# ---- writing


def _as_yaml(text: bytes, new: Any) -> bytes:
    """Returns a document as YAML; with the comments of the text that it was, if there are any."""
    if b"#" in text and (kept := _with_comments(text, new)) is not None:
        return kept
    dumped: bytes = pyyaml.dump(
        new, Dumper=_Dumper, sort_keys=False, allow_unicode=True, encoding="utf-8", width=10_000
    )
    return dumped


class _Dumper(pyyaml.SafeDumper):
    """Writes texts that other decoders would take for something else in quotes."""


def _represent_text(dumper: pyyaml.SafeDumper, text: str) -> pyyaml.ScalarNode:
    style = "|" if "\n" in text else None if yaml.resolve(text) == text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _with_comments(text: bytes, new: Any) -> bytes | None:
    """Returns a document as YAML, with the comments of a text; None if they cannot be read."""
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        return None
    reader = YAML(typ="rt")
    reader.preserve_quotes = True
    reader.width = 10_000
    try:
        commented = reader.load(text)
    except (YAMLError, ValueError, RecursionError):  # It takes more for dates and numbers than YAML 1.2 does.
        return None
    if not isinstance(commented, dict):
        return None
    _replace(commented, new)
    out = io.BytesIO()
    reader.dump(commented, out)
    return out.getvalue()


def _replace(commented: Any, new: Any) -> None:
    """Make a document what `new` is; what stays keeps its comments."""
    for name in [name for name in commented if name not in new]:
        del commented[name]
    for name, value in new.items():
        old = commented.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            _replace(old, value)
        elif isinstance(old, list) and isinstance(value, list) and len(old) == len(value):
            for index, each in enumerate(value):
                if isinstance(old[index], dict) and isinstance(each, dict):
                    _replace(old[index], each)
                elif old[index] != each:
                    old[index] = each
        elif name not in commented or old != value or type(old) is bool is not type(value) is bool:
            commented[name] = value


def _print(results: _Results, *, as_json: bool) -> None:
    out = sys.stdout.buffer
    if as_json:
        documents = results.documents
        whole = (
            documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
        )
        print_json(whole)
    else:
        out.write(b"---\n".join(text if text.endswith(b"\n") else text + b"\n" for text in results.texts))
    out.flush()


# ---- the command line


def parser() -> IntermixedParser:
    parser = described_parser("convert", _ABOUT)
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="A file, a directory, or - for the standard input. May be repeated.",
    )
    parser.add_argument(
        "-R", "--recursive", action="store_true", help="Include the subdirectories of directories."
    )
    parser.add_argument(
        "--output-version",
        default="",
        metavar="GROUP/VERSION",
        help="The version to convert to, for example apps/v1.",
    )
    parser.add_argument(
        "--release",
        type=release,
        default=DEFAULT_RELEASE.minor,
        metavar="1.NN",
        help=f"Convert to the versions that this Kubernetes release prefers. (default {DEFAULT_RELEASE})",
    )
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="The output format. (default yaml)"
    )
    parser.add_argument("--strict", action="store_true", help="Fail if a field of a manifest is lost.")
    return parser
