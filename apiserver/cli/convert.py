"""`apiserver convert`: writes manifests in other versions of their types. No server is asked."""

from __future__ import annotations

import argparse
import io
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml as pyyaml

from apiserver.catalogue.offline_conversion import ConvertedManifest, ManifestConverter, NotConvertible
from apiserver.cli.argument_parser import UsageError, add_output_option, nonempty
from apiserver.cli.flag_values import release
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.manifest_files import Manifest, is_manifest, manifests
from apiserver.cli.printing import print_json, print_warning, write_output
from apiserver.meta.releases.emulation import DEFAULT_RELEASE, EmulatedRelease, InvalidEmulation
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.wire import yaml
from apiserver.wire.yaml import InvalidYaml

_ABOUT: Final = """
Converts manifests to another API version and prints the converted manifests. The command converts an object
to --output-version if the object's type exists in that version. The command converts all other objects to the
versions that the Kubernetes release in --release prefers. If a manifest needs no conversion, the command
prints the manifest unchanged. If ruamel.yaml is installed (pip install ruamel.yaml), the command preserves
comments in converted manifests. If the new version has no default for a field, the command writes the old
version's default into the manifest. The command reports lost fields, unreadable files and skipped documents
on stderr. When the command converts a directory, it skips Helm chart templates and documents that are not
manifests. To convert a Helm chart, pipe the output of `helm template` to `apiserver convert -f -`.

The exit code is 1 if the command cannot convert a manifest. With --strict, the exit code is also 1 if the
conversion drops a field of a manifest.
"""
CONVERTED, NOT_CONVERTED = 0, 1


@dataclass
class _Results:
    """The converted manifests, and what is none.

    skipped: the number of other documents of each file. templates: files with templates of Helm charts.
    """

    strict: bool
    texts: list[bytes] = field(default_factory=list)
    documents: list[Any] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    templates: list[str] = field(default_factory=list)
    has_failed: bool = False

    def tell(self, place: str, text: str, *, fails: bool) -> None:
        print_warning(f"apiserver convert: {place}: {text}")
        self.has_failed |= fails


def run(arguments: Sequence[str]) -> int:
    """Convert, and print the manifests. Returns the exit code. Raises UsageError; exits for --help."""
    given = parser().parse_args(arguments)
    if not given.files:
        raise UsageError("convert: -f needs a file or directory, or - for the standard input")
    try:
        minor = EmulatedRelease.of(given.release).minor
    except InvalidEmulation as error:
        raise UsageError(f"convert: {error}") from None
    converter = ManifestConverter(BuiltinSchemas(DEFAULT_RELEASE.version))
    if given.output_version and not converter.has_version(given.output_version):
        raise UsageError(f"convert: --output-version: no release of Kubernetes has {given.output_version}")
    results = _Results(given.strict)
    for manifest in manifests("convert", given.files, results.templates, recursive=given.recursive):
        _convert(converter, manifest, given, minor, results)
    for file in results.templates:
        results.tell(file, "skipped a template of a Helm chart", fails=False)
    for file, count in results.skipped.items():
        documents = (
            "1 document that is not a manifest" if count == 1 else f"{count} documents that are not manifests"
        )
        results.tell(file, f"skipped {documents} (no apiVersion and kind)", fails=False)
    _print(results, as_json=given.output == "json")
    return NOT_CONVERTED if results.has_failed else CONVERTED


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
    if manifest.is_found and not is_manifest(document):
        results.skipped[manifest.file] += 1
        return
    if not isinstance(document, dict):
        results.tell(place, "the manifest is not an object", fails=True)
        results.texts.append(manifest.text)
        return
    for each in duplicates:
        results.tell(place, f"{each}; the last value is used", fails=results.strict)

    def one(each: Any, where: str) -> Any:
        if not isinstance(each, dict):
            results.tell(where, "the manifest is not an object", fails=True)
            return each
        try:
            converted = converter.convert(each, given.output_version, minor)
        except NotConvertible as error:
            results.tell(where, f"{error}; the manifest is not converted", fails=True)
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


def _tell(converted: ConvertedManifest, document: Any, where: str, results: _Results) -> None:
    version = f"{document['apiVersion']} {document['kind']}"
    for path in converted.unknown:
        results.tell(where, f"{version} has no field {path}; the field is omitted", fails=results.strict)
    for path in converted.lost:
        target = converted.document["apiVersion"]
        results.tell(where, f"{path} does not exist in {target}; the field is omitted", fails=results.strict)
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
    if as_json:
        documents = results.documents
        whole = (
            documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
        )
        print_json(whole)
    else:
        write_output(b"---\n".join(text if text.endswith(b"\n") else text + b"\n" for text in results.texts))
    sys.stdout.flush()


# ---- the command line


def parser() -> IntermixedParser:
    parser = described_parser("convert", _ABOUT)
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        action="append",
        type=nonempty,
        default=[],
        metavar="FILE",
        help="A file, a directory, or - for standard input. The flag can be repeated.",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="Include files in subdirectories.")
    parser.add_argument(
        "--output-version",
        default="",
        metavar="GROUP/VERSION",
        help="The API version to convert to, for example apps/v1.",
    )
    parser.add_argument(
        "--release",
        type=release,
        default=DEFAULT_RELEASE.minor,
        metavar="1.NN",
        help="The Kubernetes release whose preferred API versions the command converts to. (default "
        f"{DEFAULT_RELEASE})",
    )
    add_output_option(parser, "yaml", "json")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="Exit with code 1 if the conversion drops a field of a manifest.",
    )
    return parser
