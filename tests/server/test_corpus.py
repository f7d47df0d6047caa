"""Every built-in type in every media type: manifests are stored, shown, and accepted again as shown.

Rows D01-D05, D07, D22, E01. YAML and CBOR are read and written by other libraries than the server's own.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import cbor2
import orjson
import pytest
import yaml

from apiserver.registry.served_resource import ServedResource
from apiserver.wire.protobuf import MAGIC, open_envelope, seal
from tests import corpus
from tests.corpus import Manifest, path_of
from tests.support.api import Answer, Api
from tests.support.served import TABLE
from tests.support.server_process import ServerProcess

STORED_TYPES: Final = {
    f"{r.api_version}/{r.resource}": r for r in TABLE.resources if {"create", "list", "watch"} <= set(r.verbs)
}
JSON: Final = "application/json"
YAML: Final = "application/yaml"
CBOR: Final = "application/cbor"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
AS_TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"

# Kinds whose status the server itself writes, soon after they are created.
TENDED: Final = {"CustomResourceDefinition"}

each_manifest = pytest.mark.parametrize("manifest", corpus.manifests(), ids=lambda each: each.id)
each_stored_type = pytest.mark.parametrize("resource", STORED_TYPES.values(), ids=STORED_TYPES)

# Watches by type and form, each with its end.
Watches: TypeAlias = Mapping[tuple[ServedResource, str], bytes]


@dataclass(frozen=True)
class Stored:
    """A server with the whole corpus, and its responses to each document's create and status."""

    api: Api
    answers: Mapping[str, list[Answer]]

    def shown(self, path: str, form: str = JSON) -> bytes:
        answer = self.api.get(path, headers={"Accept": form})
        assert (answer.status, answer.headers["content-type"]) == (200, form.partition(";")[0]), answer.body
        return answer.body


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    data_dir = tmp_path_factory.mktemp("corpus") / "data"
    # Nobody but the test writes: with fairness the server keeps the status of FlowSchemas.
    flags = ("--feature-gates=CBORServingAndStorage=true", "--enable-priority-and-fairness=false")
    with ServerProcess(data_dir, *flags) as server, Api(server) as api:
        yield Stored(api, {each.id: create(api, each) for each in corpus.manifests()})


def create(api: Api, manifest: Manifest) -> list[Answer]:
    document, strictly = manifest.document, "?fieldValidation=Strict"
    answers = [api.post(manifest.collection(type_of(manifest)) + strictly, document)]
    if answers[0].status == 201 and "status" in document:
        document["metadata"] = answers[0].json["metadata"]
        answers.append(api.put(f"{path_to(manifest)}/status{strictly}", document))
    return answers


def type_of(manifest: Manifest) -> ServedResource:
    return manifest.type_in(TABLE)


def others_of(manifest: Manifest) -> list[ServedResource]:
    """The other versions of the same resource."""
    own = type_of(manifest)
    return [
        r for r in TABLE.resources if r is not own and r.stored_group_resource == own.stored_group_resource
    ]


def path_to(manifest: Manifest) -> str:
    return f"{manifest.collection(type_of(manifest))}/{manifest.name}"


# ---- the forms


def from_protobuf(resource: ServedResource, body: bytes) -> Any:
    envelope = open_envelope(body)
    head = {"apiVersion": envelope.api_version, "kind": envelope.kind}
    return {**head, **resource.from_protobuf(envelope.raw)}


def in_form(form: str, document: Any) -> Any:
    """The part of a document that a media type keeps: null, absent and empty are one in protobuf."""
    return without_nothing(document) if form == PROTOBUF else document


def without_nothing(value: Any, *, without: frozenset[str] = frozenset()) -> Any:
    if isinstance(value, list):
        return [without_nothing(each, without=without) for each in value]
    if isinstance(value, dict):
        return {
            key: without_nothing(each, without=HEAD if key == "volumeClaimTemplates" else frozenset())
            for key, each in value.items()
            if each not in (None, []) and key not in without
        }
    return value


# What a whole object inside of another does not have in protobuf.
HEAD: Final = frozenset({"apiVersion", "kind"})


def to_protobuf(resource: ServedResource, document: Any) -> bytes:
    return seal(document["apiVersion"], document["kind"], resource.to_protobuf(document))


def as_texts(value: Any) -> Any:
    """Kubernetes' CBOR has all texts as bytes."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        return [as_texts(each) for each in value]
    if isinstance(value, Mapping):
        return {as_texts(key): as_texts(each) for key, each in value.items()}
    return value


class QuotingDumper(yaml.SafeDumper):
    """PyYAML leaves `1e8` without quotes, which others take for a number."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"')


QuotingDumper.add_representer(str, QuotingDumper.represent_text)

READ: Final[dict[str, Callable[[ServedResource, bytes], Any]]] = {
    JSON: lambda _, body: orjson.loads(body),
    YAML: lambda _, body: yaml.safe_load(body),
    CBOR: lambda _, body: as_texts(cbor2.loads(body)),
    PROTOBUF: from_protobuf,
}
WRITE: Final[dict[str, Callable[[ServedResource, Any], bytes]]] = {
    JSON: lambda _, document: orjson.dumps(document),
    YAML: lambda _, document: yaml.dump(document, Dumper=QuotingDumper, allow_unicode=True).encode(),
    CBOR: lambda _, document: cbor2.dumps(document),
    PROTOBUF: to_protobuf,
}


def read(form: str, resource: ServedResource, body: bytes) -> Any:
    """Decode a body, as far as its media type keeps the document."""
    return in_form(form, READ[form](resource, body))


def forms(resource: ServedResource) -> list[str]:
    return [form for form in READ if form != PROTOBUF or resource.has_protobuf]


# ---- each document


@each_manifest
def test_a_manifest_is_stored_as_written(stored: Stored, manifest: Manifest) -> None:
    """The server may add to it; it loses and changes nothing."""
    answers = stored.answers[manifest.id]
    assert [answer.status for answer in answers] in ([201], [201, 200]), answers[-1].body
    shown = orjson.loads(stored.shown(path_to(manifest)))
    answered = answers[-1].json
    if manifest.kind in TENDED:
        for each in (answered, shown):
            meta = each["metadata"]
            del each["status"], meta["resourceVersion"]
            # The status has an owner then, the server itself.
            meta["managedFields"] = [entry for entry in meta["managedFields"] if "subresource" not in entry]
    assert answered == shown
    written = manifest.document
    # What is given as text is stored as data: the strategy of Secrets in kubernetes/pkg/registry/core/secret.
    texts = written.pop("stringData", {})
    assert set(texts) <= set(shown.get("data", {}))
    # Dropped by the strategy of EndpointSlices in kubernetes/pkg/registry/discovery/endpointslice.
    for endpoint in written.get("endpoints", ()):
        endpoint.pop("deprecatedTopology", None)
    assert list(lost(written, shown)) == []


def lost(written: Any, shown: Any, path: str = "") -> Iterator[str]:
    """The paths at which `shown` lacks something of `written`. Empty values may be absent or null."""
    if isinstance(written, dict) and isinstance(shown, dict):
        for name, value in written.items():
            if shown.get(name) is not None:
                yield from lost(value, shown[name], f"{path}.{name}")
            elif value not in (None, "", 0, []):
                yield f"{path}.{name}: is missing"
    elif isinstance(written, list) and isinstance(shown, list) and len(written) <= len(shown):
        for index, value in enumerate(written):
            yield from lost(value, shown[index], f"{path}[{index}]")
    elif written != shown and amount(written) != amount(shown):
        yield f"{path}: {written!r} became {shown!r}"


UNITS: Final = {
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    **{unit: Decimal(1000**power) for power, unit in enumerate("MGT", 2)},
    **{f"{unit}i": Decimal(1024**power) for power, unit in enumerate("KMGT", 1)},
}


def amount(value: Any) -> Any:
    """A quantity as a number: the same one can be written in several ways. Anything else as it is."""
    text = str(value)
    unit = next((unit for unit in (text[-2:], text[-1:]) if unit in UNITS), "")
    try:
        return Decimal(text.removesuffix(unit)) * UNITS.get(unit, Decimal(1))
    except InvalidOperation:
        return value


@each_manifest
def test_a_manifest_is_the_same_in_every_media_type(stored: Stored, manifest: Manifest) -> None:
    resource, path = type_of(manifest), path_to(manifest)
    expected = orjson.loads(stored.shown(path))
    for form in forms(resource):
        assert read(form, resource, stored.shown(path, form)) == in_form(form, expected), form


@each_manifest
def test_writing_what_is_shown_changes_nothing(stored: Stored, manifest: Manifest) -> None:
    """In whatever form: an update that changes nothing is none (row B08)."""
    resource, path = type_of(manifest), path_to(manifest)
    expected = orjson.loads(stored.shown(path))
    for form in forms(resource):
        answer = stored.api.put(path, WRITE[form](resource, expected), type=form, headers={"Accept": form})
        assert answer.status == 200, (form, answer.body)
        assert read(form, resource, answer.body) == in_form(form, expected), form
        assert answer.warnings == stored.api.put(path, expected).warnings, form
    assert orjson.loads(stored.shown(path)) == expected


# ---- each type


def test_the_corpus_has_every_type() -> None:
    assert {type_of(each) for each in corpus.manifests()} >= set(STORED_TYPES.values())


def ours(resource: ServedResource, items: list[Any]) -> dict[tuple[str, str], Any]:
    """The items that are of the corpus, by namespace and name: the server has others."""
    names = names_of(resource)
    found = {(each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in items}
    return {key: value for key, value in found.items() if key in names}


def names_of(resource: ServedResource) -> set[tuple[str, str]]:
    """The names of the corpus' objects of a type, in whatever version they were written."""
    found = set()
    for each in corpus.manifests():
        if type_of(each).stored_group_resource == resource.stored_group_resource:
            found.add((each.namespace if resource.is_namespaced else "", each.name))
    return found


@each_stored_type
def test_lists(stored: Stored, resource: ServedResource) -> None:
    """In JSON what is there, in other forms the same."""
    path = path_of(resource)
    items = ours(resource, orjson.loads(stored.shown(path))["items"])
    assert set(items) == names_of(resource)
    for (namespace, name), item in items.items():
        alone = orjson.loads(stored.shown(f"{path_of(resource, namespace)}/{name}"))
        assert alone == {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    for form in (YAML, CBOR):
        listed = READ[form](resource, stored.shown(path, form))
        assert (listed["kind"], listed["apiVersion"]) == (resource.list_kind, resource.api_version)
        assert ours(resource, listed["items"]) == items, form
    if resource.has_protobuf:
        listed = protobuf_items(resource, stored.shown(path, PROTOBUF))
        assert in_form(PROTOBUF, ours(resource, listed)) == in_form(PROTOBUF, items)


def protobuf_items(resource: ServedResource, body: bytes) -> list[Any]:
    """The items of a list in protobuf: its field 2, after the metadata in field 1."""
    envelope = open_envelope(body)
    assert envelope.kind == resource.list_kind
    return [resource.from_protobuf(raw) for number, raw in fields(envelope.raw) if number == 2]


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field; all have a length."""
    stream = io.BytesIO(message)
    while key := stream.read(1):
        length = shift = 0
        while True:
            byte = stream.read(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield key[0] >> 3, stream.read(length)


@each_stored_type
def test_tables(stored: Stored, resource: ServedResource) -> None:
    """A row for each object, a cell for each column, and none that says nothing at all."""
    table = orjson.loads(stored.shown(path_of(resource), AS_TABLE))
    assert table["kind"] == "Table"
    rows = [row for row in table["rows"] if ours(resource, [row["object"]])]
    assert len(rows) == len(names_of(resource))
    for row in rows:
        assert row["object"]["kind"] == "PartialObjectMetadata"
        cells = dict(zip([each["name"] for each in table["columnDefinitions"]], row["cells"], strict=True))
        assert not {None} & set(cells.values()), cells
        if "Name" in cells:
            # A class that is used where none is named says so after its name.
            assert cells["Name"].removesuffix(" (default)") == row["object"]["metadata"]["name"]


# ---- watches


@pytest.fixture(scope="module")
def watches(stored: Stored) -> Watches:
    """The bodies of watches of all types, opened together; each ends at its timeout."""

    def watch(which: tuple[ServedResource, str]) -> bytes:
        resource, form = which
        api = stored.api.as_caller("admin-token")
        answer = api.get(f"{path_of(resource)}?watch=1&timeoutSeconds=1", headers={"Accept": form})
        api.close()
        assert answer.status == 200, answer.body
        return answer.body

    wanted = [(r, form) for r in STORED_TYPES.values() for form in forms(r) if form != YAML]
    with ThreadPoolExecutor(len(STORED_TYPES)) as pool:
        return dict(zip(wanted, pool.map(watch, wanted), strict=True))


def json_events(resource: ServedResource, stream: bytes) -> Iterator[tuple[str, Any]]:
    for line in stream.splitlines():
        event = orjson.loads(line)
        yield event["type"], event["object"]


def cbor_events(resource: ServedResource, stream: bytes) -> Iterator[tuple[str, Any]]:
    source = io.BytesIO(stream)
    decoder = cbor2.CBORDecoder(source)
    while source.tell() < len(stream):
        event = as_texts(decoder.decode())
        yield event["type"], event["object"]


def protobuf_events(resource: ServedResource, stream: bytes) -> Iterator[tuple[str, Any]]:
    while stream:
        length = int.from_bytes(stream[:4], "big")
        event, stream = dict(fields(stream[4 : 4 + length])), stream[4 + length :]
        sealed = dict(fields(event[2]))[1]
        assert sealed.startswith(MAGIC)
        yield event[1].decode(), from_protobuf(resource, sealed)


EVENTS: Final[dict[str, Callable[[ServedResource, bytes], Iterator[tuple[str, Any]]]]] = {
    JSON: json_events,
    CBOR: cbor_events,
    PROTOBUF: protobuf_events,
}


@each_stored_type
def test_watches_begin_with_what_is_there(stored: Stored, watches: Watches, resource: ServedResource) -> None:
    items = ours(resource, orjson.loads(stored.shown(path_of(resource)))["items"])
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    expected = {key: {**head, **item} for key, item in items.items()}
    for form in forms(resource):
        if form != YAML:  # which has no watches
            events = list(EVENTS[form](resource, watches[resource, form]))
            added = ours(resource, [each for kind, each in events if kind == "ADDED"])
            assert in_form(form, added) == in_form(form, expected), form


# ---- several versions of one type


@pytest.mark.parametrize(
    "manifest", [each for each in corpus.manifests() if others_of(each)], ids=lambda each: each.id
)
def test_every_version_shows_all_there_is(stored: Stored, manifest: Manifest) -> None:
    """Written back as another version shows it, an object is still the same."""
    before = stored.shown(path_to(manifest))
    for resource in others_of(manifest):
        path = f"{path_of(resource, manifest.namespace)}/{manifest.name}"
        shown = orjson.loads(stored.shown(path))
        assert (shown["apiVersion"], shown["kind"]) == (resource.api_version, resource.kind)
        assert stored.api.put(path, shown).ok() == shown
    assert stored.shown(path_to(manifest)) == before


# ---- questions


@pytest.mark.parametrize("review", corpus.reviews(), ids=lambda each: each.id)
def test_reviews_are_answered_in_every_form(stored: Stored, review: Manifest) -> None:
    resource = type_of(review)
    path, document = review.collection(resource), review.document
    expected = stored.api.post(path, document).ok()
    assert expected["status"]
    if expected.get("spec"):  # A review of rules does not repeat the question.
        assert list(lost(document, expected)) == []
    for form in forms(resource):
        body = WRITE[form](resource, document)
        answer = stored.api.post(path, body, type=form, headers={"Accept": form})
        assert (answer.status, answer.headers["content-type"]) == (201, form), answer.body
        assert READ[form](resource, answer.body)["status"] == expected["status"], form
