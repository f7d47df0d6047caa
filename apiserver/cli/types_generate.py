"""`apiserver types generate`: Python classes for the types of definitions and of OpenAPI documents."""

from __future__ import annotations

import argparse
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final

import orjson

from apiserver.cli.api_client import ApiClient, RequestFailed, user_agent
from apiserver.cli.argument_parser import UsageError, nonempty
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser, run_subcommand
from apiserver.cli.manifest_files import SUFFIXES, documents_in, manifests
from apiserver.cli.printing import print_error, write_output
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.golang.urls import redacted_urls
from apiserver.types.code_generation.emitter import UnsupportedName
from apiserver.types.code_generation.generation import EMITTERS, definitions_source, openapi_source
from apiserver.types.code_generation.openapi_reader import group_versions, resource_names
from apiserver.wire import yaml
from apiserver.wire.yaml import InvalidYaml

COMMAND: Final = "types generate"
DONE, FAILED = 0, 1
_ABOUT: Final = """
Writes a Python module with classes for the types of CustomResourceDefinitions, of an OpenAPI v3 document or
of an API group. SOURCE is one of:

  FILE            a file or directory with definitions, an OpenAPI document, or - for standard input
  URL             the address of such a file
  GROUP[/VERSION] an API group, for example apps or apps/v1; without a version, the preferred one

The command reads the built-in groups of Kubernetes from its own schemas. It requests all other groups, and
with --server, --context or --kubeconfig also the built-in groups, from the server in the kubeconfig.

Classes for a CustomResourceDefinition have the decorators and markers of `apiserver.types`, so that its
function `definition` makes the same definition from the classes. If Python does not allow the name of a
field, the attribute has a similar name, and an alias. The command formats the module as `ruff format` does.

The exit code is 1 if the server does not respond, or if a definition is not valid.
"""
_CORE_VERSION: Final = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?")
_GROUP_VERSION: Final = re.compile(rf"(?:[a-z0-9.-]+/)?{_CORE_VERSION.pattern}")
# The names of groups are those of domains.
_GROUP: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
)
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
# How long a download may take, and how long nothing may come.
DOWNLOAD_S_MAX: Final = 300.0
TIMEOUT_S: Final = 30
# The OpenAPI document of Kubernetes' core group has 2 MB.
DOWNLOAD_BYTES_MAX: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 64 * 1024
_NO_DEFINITION: Final = "the definition is not valid; run 'apiserver crd check' to find out why"
_NO_OPENAPI: Final = "the OpenAPI document is not valid"
Document = dict[str, Any]


class NotGenerated(Exception):
    """A document is not valid, or cannot be downloaded. The message is one line."""


def run(arguments: Sequence[str]) -> int:
    """Run the subcommand that the arguments after `types` name. Returns the exit code.

    Raises UsageError, RequestFailed; exits for --help.
    """
    return run_subcommand(parser(), arguments)


def parser() -> IntermixedParser:
    parser = described_parser("types", "Generates Python classes from API types.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    generate = commands.add_parser(
        "generate",
        description=_ABOUT,
        help="Generate Python classes from definitions or an OpenAPI document.",
    )
    generate.add_argument(
        "source",
        type=nonempty,
        metavar="SOURCE",
        help="A file, a URL, or an API group, with or without a version.",
    )
    generate.add_argument(
        "--as",
        dest="kind",
        choices=tuple(EMITTERS),
        default=next(iter(EMITTERS)),
        help="The kind of the classes. (default dataclass)",
    )
    add_server_options(generate)
    generate.set_defaults(command=_generate)
    return parser


def _generate(given: argparse.Namespace) -> int:
    try:
        source = _source(given)
    except NotGenerated as error:
        print_error(error)
        return FAILED
    write_output(source.encode())
    return DONE


def _source(given: argparse.Namespace) -> str:
    """Returns the source of the module. Raises UsageError, RequestFailed, NotGenerated."""
    name = given.source
    texts: Iterable[bytes]
    if _URL.match(name):
        texts = documents_in(_downloaded(name))
    elif name == "-" or os.path.exists(name):  # Path raises OSError for long names.
        texts = [each.text for each in manifests(COMMAND, [name], [])]
    elif _GROUP_VERSION.fullmatch(name) or (_GROUP.fullmatch(name) and not name.endswith(SUFFIXES)):
        group_version, schemas = _schemas(given)
        return _checked(name, _NO_OPENAPI, lambda: openapi_source(schemas, given.kind, group_version))
    else:
        raise UsageError(
            f"{COMMAND}: {name!r} is not a file, an http or https URL, or a group such as apps or apps/v1"
        )
    return _source_of(name, [each for text in texts for each in _documents(name, text)], given.kind)


def _source_of(name: str, documents: Sequence[Document], kind: str) -> str:
    """Returns the source for documents of a file. Raises UsageError, NotGenerated."""
    definitions = [each for each in documents if each.get("kind") == "CustomResourceDefinition"]
    if definitions:
        for each in definitions:
            version = str(each.get("apiVersion")).rpartition("/")[2]
            if version != "v1":
                raise NotGenerated(f"{name}: the definition has version {version}; only v1 is supported")
        return _checked(name, _NO_DEFINITION, lambda: definitions_source(definitions, kind))
    document = next((each for each in documents if each.keys() & {"openapi", "swagger"}), None)
    if document is None:
        raise UsageError(f"{COMMAND}: {name}: there are no CustomResourceDefinitions and no OpenAPI document")
    return _checked(name, _NO_OPENAPI, lambda: openapi_source(_schemas_in(document), kind))


def _checked(name: str, problem: str, generate: Callable[[], str]) -> str:
    """Returns what a function generates. Raises NotGenerated if it finds a document that is not valid."""
    try:
        return generate()
    except UnsupportedName as error:
        raise NotGenerated(f"{name}: {error}; choose other classes with --as") from None
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        raise NotGenerated(f"{name}: {problem}") from None


# ---- documents


def _documents(name: str, text: bytes) -> Iterator[Document]:
    """Yields the objects in a document, which may be a list of them. Raises NotGenerated."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        document = None
    if document is None:
        try:
            document, _ = yaml.load(text)
        except InvalidYaml as error:
            raise NotGenerated(f"{name}: {error}") from None
    yield from _objects(document)


def _objects(document: Any) -> Iterator[Document]:
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
        yield from (each for each in items if isinstance(each, dict))
    else:
        yield document


def _downloaded(url: str) -> bytes:
    """Returns what is at a URL. Raises NotGenerated."""
    try:
        request = urllib.request.Request(url, headers={"User-Agent": user_agent(COMMAND)})  # noqa: S310  http
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310  http or https
            content = b"".join(_pieces(response, time.monotonic() + DOWNLOAD_S_MAX))
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if type(error) is urllib.error.URLError else error
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # It is the response, too.
        raise NotGenerated(f"{redacted_urls(url)}: {redacted_urls(str(reason))}") from None
    return content


def _pieces(response: Any, ends_at: float) -> Iterator[bytes]:
    """Yields the content of a response. Raises TimeoutError, and ValueError if it is long or incomplete."""
    size = 0
    while piece := response.read1(_PIECE_BYTES):
        if (size := size + len(piece)) > DOWNLOAD_BYTES_MAX:
            raise ValueError(f"the file has more than {DOWNLOAD_BYTES_MAX} bytes")
        if time.monotonic() > ends_at:
            raise TimeoutError(f"the download takes more than {DOWNLOAD_S_MAX:g} s")
        yield piece
    if response.headers.get("Content-Length", str(size)) != str(size):
        raise ValueError("the connection was closed before the end of the file")


# ---- schemas


def _schemas(given: argparse.Namespace) -> tuple[str, Mapping[str, Any]]:
    """Returns a group and version, and its schemas: those of Kubernetes, or those of a server.

    Raises RequestFailed.
    """
    name = given.source
    if not (given.server or given.context or given.kubeconfig):
        from apiserver.meta.releases.emulation import DEFAULT_RELEASE
        from apiserver.schema.builtin import BuiltinSchemas

        builtin = BuiltinSchemas(DEFAULT_RELEASE.version).definitions()
        group_version = name if _GROUP_VERSION.fullmatch(name) else _preferred_version(builtin, name)
        if group_version and resource_names(builtin, group_version):
            return group_version, builtin
    is_versioned = _GROUP_VERSION.fullmatch(name) is not None
    try:
        client = ApiClient(ServerOptions.of(given), COMMAND)
        try:
            group_version = name if is_versioned else _served_version(client, name)
            return group_version, _served_schemas(client, group_version)
        finally:
            client.close()
    except RequestFailed as failed:
        if is_versioned:
            raise
        # It may be meant as the name of a file.
        raise RequestFailed(f"{name} is not a file or a built-in group: {failed}", failed.status) from None


def _served_version(client: ApiClient, group: str) -> str:
    """Returns the version of a group that a server prefers, as `apps/v1`. Raises RequestFailed."""
    try:
        found = str(client.get(f"/apis/{group}")["preferredVersion"]["groupVersion"])
    except RequestFailed as failed:
        raise _not_served(client, group, failed) from None
    except (LookupError, TypeError):
        found = ""
    # It becomes a part of the module.
    if not re.fullmatch(rf"{re.escape(group)}/[a-z0-9-]+", found):
        raise RequestFailed(f"the server's response for {group} is not an API group")
    return found


def _served_schemas(client: ApiClient, group_version: str) -> Mapping[str, Any]:
    """Returns the schemas of a group and version. Raises RequestFailed."""
    root = "api" if _CORE_VERSION.fullmatch(group_version) else "apis"
    try:
        return _schemas_in(client.get(f"/openapi/v3/{root}/{group_version}"))
    except RequestFailed as failed:
        raise _not_served(client, group_version, failed) from None
    except LookupError:
        raise RequestFailed(f"the server's response for {group_version} is not an OpenAPI document") from None


def _not_served(client: ApiClient, what: str, failed: RequestFailed) -> RequestFailed:
    if failed.status != HTTPStatus.NOT_FOUND:
        return failed
    return RequestFailed(f"{client.server} does not serve {what}", failed.status)


def _preferred_version(builtin: Mapping[str, Any], group: str) -> str:
    """Returns the version of a built-in group that discovery prefers; empty if there is no such group."""
    from apiserver.registry.served_resource import version_priority

    found = [each for each in group_versions(builtin) if each.rpartition("/")[0] == group]
    return max(found, key=lambda each: version_priority(each.rpartition("/")[2]), default="")


def _schemas_in(document: Document) -> Mapping[str, Any]:
    """Returns the schemas of an OpenAPI document. Raises LookupError."""
    schemas: Mapping[str, Any] = (
        document["definitions"] if "definitions" in document else document["components"]["schemas"]
    )
    return schemas
