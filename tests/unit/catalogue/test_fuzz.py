"""Whatever a document says, a type's rules answer it: with errors about fields, never with an exception.

Each type's manifests of the corpus are changed at random places: values of other types, nothing where
something was, fields that nobody has set, names that nobody would choose. Rows E01, E02, P02.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.endpoints.handlers.subresources.scale import ScaledType
from apiserver.golang.quoting import aggregate
from apiserver.meta import object_meta
from apiserver.meta.errors import Invalid
from apiserver.meta.field_errors import FieldError
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.strategy import UpdateStrategy, WriteContext
from apiserver.schema.compile import TypeMismatch
from apiserver.schema.structural import Schema, ValueKind
from apiserver.wire import cbor, yaml
from apiserver.wire.protobuf import NotEncodable
from tests import corpus
from tests.unit.catalogue.served_kinds import table

NOW: Final = 1_700_000_000.0
CREATED: Final = "2024-05-06T07:08:09Z"
STAMP: Final = WriteContext(UserInfo("somebody", ("a",), "u", (("k", ("v",)),)), CREATED)
TYPES: Final = {f"{r.api_version}/{r.resource}": r for r in table().resources}
CHANGES_MAX: Final = 6
DEPTH_MAX: Final = 6

# What stands where it is not expected.
ODD: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        0,
        -1,
        1.5,
        1e300,
        2**31,
        2**63 - 1,
        -(2**63),
        "",
        "a",
        [],
        {},
        [None],
        [{}],
        [[]],
        {"": 1},
    ),
    *({"a": None}, {"é\0\u202e": {}}, {"a": {"a": {"a": []}}}, [""] * 70, {"$patch": "delete"}),
)
TEXTS: Final = (
    *(
        "",
        "a",
        "A",
        "-",
        "/",
        "//",
        "a/b",
        "a/b/c",
        ".",
        "..",
        "*",
        "*/*",
        "a,b",
        "a=b",
        "0",
        "-1",
        "65536",
        "1e9",
    ),
    *(
        "1.2.3.4",
        "::1",
        "fd00::/64",
        "10.0.0.0/33",
        "10.0.0.0/8",
        "256.0.0.0",
        "1:2",
        "http://[::1",
        "https://h/x",
    ),
    *(
        "https://a@b:99999/",
        "tcp://1.2.3.4:80",
        "\0",
        "\n",
        "é",
        "\u202e",
        "\N{ARABIC-INDIC DIGIT ONE}",
        "x" * 300,
    ),
    *(
        "In",
        "NotIn",
        "Exists",
        "Gt",
        "Always",
        "Never",
        "OnDelete",
        "RollingUpdate",
        "Recreate",
        "Indexed",
        "All",
    ),
    *(
        "Resource",
        "Pods",
        "External",
        "Object",
        "ClusterIP",
        "None",
        "ExternalName",
        "LoadBalancer",
        "IPv4",
        "TCP",
    ),
    *(
        "50%",
        "101%",
        "%",
        "-5%",
        "1/0",
        "* * * * *",
        "@daily",
        "TZ=a",
        "0-5,7",
        "5-1",
        "1Gi",
        "-1m",
        "1e400",
        "1Ki1",
    ),
    *(
        "User",
        "Group",
        "Namespace",
        "Exact",
        "Prefix",
        "Limited",
        "Exempt",
        "Bound",
        "Filesystem",
        "Block",
        "Local",
    ),
    *(
        "Approved",
        "Denied",
        "Failed",
        "True",
        "Complete",
        "FailureTarget",
        "object.x > 0",
        "(",
        "a.b[",
        "self",
        "e30=",
    ),
    *(
        "ReadWriteOnce",
        "NotBestEffort",
        "cpu",
        "requests.storage",
        "hugepages-2Mi",
        "count/pods",
        "a.b/c",
        "default",
    ),
    *(
        CREATED,
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "kube-system",
        "system:node:a",
        "v1",
        "v1.apps",
    ),
)
NUMBERS: Final = (0, 1, -1, 2, 80, 1000, 65_535, 65_536, 2**31 - 1, -(2**31), 2**63 - 1)
QUANTITIES: Final = ("0", "1", "-1", "100m", "1Gi", "0.0000000001", "9e30", "1E", 5, 0.5, "1n")


def of_type(schema: Schema, random: Random, depth: int = 0) -> Any:
    """A value that a field may have, be it sense or nonsense."""
    if random.random() < 0.04:
        return None
    match schema.kind:
        case ValueKind.STRUCT:
            share = 0.0 if depth > DEPTH_MAX else random.choice((0.1, 0.4, 0.9)) / (1 + depth / 2)
            return {
                name: of_type(field, random, depth + 1)
                for name, field in schema.fields.items()
                if random.random() < share
            }
        case ValueKind.MAP:
            assert schema.element is not None
            keys = random.sample(TEXTS, random.randrange(4))
            return {key: of_type(schema.element, random, depth + 1) for key in keys}
        case ValueKind.LIST:
            assert schema.element is not None
            items = [of_type(schema.element, random, depth + 1) for _ in range(random.randrange(4))]
            return items * 2 if random.random() < 0.2 else items
        case ValueKind.STRING:
            return random.choice(TEXTS)
        case ValueKind.INTEGER | ValueKind.NUMBER:
            return random.choice(NUMBERS)
        case ValueKind.INT_OR_STRING:
            return random.choice((*NUMBERS[:-1], *TEXTS))
        case ValueKind.QUANTITY:
            return random.choice(QUANTITIES)
        case ValueKind.BOOLEAN:
            return random.random() < 0.5
        case ValueKind.BYTES:
            return random.choice(("", "eA==", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="))
        case ValueKind.TIME:
            return random.choice((CREATED, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"))
        case ValueKind.MICRO_TIME:
            return "2024-05-06T07:08:09.000001Z"
        case _:
            return random.choice(({}, {"a": None}, {"kind": 1, "apiVersion": []}, {"metadata": []}))


def places(value: Any, schema: Schema | None) -> Iterator[tuple[Any, Any, Schema | None]]:
    """Each container in a document, a key in it, and the schema of what is there."""
    if isinstance(value, dict):
        known: Mapping[str, Schema] = schema.fields if schema is not None else {}
        for name, child in value.items():
            of_child = known.get(name) or (schema.element if schema is not None else None)
            yield value, name, of_child
            yield from places(child, of_child)
    elif isinstance(value, list):
        of_item = schema.element if schema is not None else None
        for index, child in enumerate(value):
            yield value, index, of_item
            yield from places(child, of_item)


def change(document: Document, schema: Schema, random: Random) -> None:
    """At one place, which may be anywhere."""
    container, key, field = random.choice([({"": document}, "", schema), *places(document, schema)])
    value = container[key]
    match random.randrange(10):
        case 0:
            container[key] = copy.deepcopy(random.choice(ODD))
        case 1 if isinstance(container, dict):
            del container[key]
        case 2 if isinstance(value, list):
            value *= random.choice((0, 2, 20))
        case 3 if isinstance(value, dict):
            value[random.choice(TEXTS)] = copy.deepcopy(random.choice(ODD))
        case 4 | 5 | 6 if isinstance(value, dict) and field is not None and field.fields:
            name = random.choice(list(field.fields))
            value[name] = of_type(field.fields[name], random)
        case _ if field is not None:
            container[key] = of_type(field, random)


def documents(resource: ServedResource) -> list[Document]:
    """Of the corpus; one with a name only, where it has none of the type."""
    found = [
        each.document
        for each in (*corpus.manifests(), *corpus.reviews())
        if each.type_in(table()) is resource
    ]
    return found or [{"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}]


def changed(resource: ServedResource, random: Random) -> Document | None:
    """A document of the type that has passed the schema. None if it has not."""
    document = copy.deepcopy(random.choice(DOCUMENTS[resource]))
    for _ in range(random.randrange(CHANGES_MAX)):
        change(document, resource.schema(), random)
    document["apiVersion"], document["kind"] = resource.api_version, resource.kind
    try:
        resource.check(document)
    except TypeMismatch:
        return None
    # As every stored object has them.
    meta = document.setdefault("metadata", {})
    meta |= {"name": meta.get("name", "a"), "uid": "u", "creationTimestamp": CREATED, "resourceVersion": "1"}
    if resource.is_namespaced:
        meta["namespace"] = "default"
    return document


DOCUMENTS: Final = {resource: documents(resource) for resource in TYPES.values()}


def require_errors(errors: list[FieldError]) -> None:
    assert all(type(error) is FieldError for error in errors)
    aggregate(errors)


def shown(resource: ServedResource, document: Document) -> None:
    """In all forms in which clients may ask for it."""
    cells = resource.columns.cells(copy.deepcopy(document), NOW)
    orjson.dumps(cells)
    assert len(cells) == len(resource.columns.definitions)
    assert yaml.load(yaml.dump(document))[0] == document
    assert cbor.load(cbor.dump(document)) == document
    if resource.has_protobuf:
        with contextlib.suppress(NotEncodable):
            resource.from_protobuf(resource.to_protobuf(document))


def created(resource: ServedResource, document: Document) -> Document:
    """As it would be stored, after all that is done with a new object."""
    strategy = resource.strategy
    document = resource.codec.to_hub(copy.deepcopy(document))
    strategy.prepare_create(document)
    if strategy.stamp_create is not None:
        strategy.stamp_create(STAMP, document)
    errors = object_meta.validate(
        document["metadata"], is_namespaced=resource.is_namespaced, name_rule=strategy.name_rule
    )
    errors += strategy.validate_create(document) + strategy.validate(document)
    require_errors(errors + strategy.validate_ratcheting(document, None))
    assert all(isinstance(text, str) for text in strategy.warn(document, None))
    return document


def updates(resource: ServedResource) -> list[UpdateStrategy]:
    return [resource.strategy.update, *(s.update for s in resource.subresources.values() if s.update)]


def updated(resource: ServedResource, rules: UpdateStrategy, new: Document, old: Document) -> None:
    new, old = resource.codec.to_hub(copy.deepcopy(new)), copy.deepcopy(old)
    object_meta.prepare_update(new["metadata"], old["metadata"])
    rules.prepare(new, old)
    if rules.stamp is not None:
        rules.stamp(STAMP, new, old)
    errors = object_meta.validate_update(new["metadata"], old["metadata"])
    errors += rules.validate(new, old) + resource.strategy.validate(new)
    require_errors(errors + resource.strategy.validate_ratcheting(new, old))
    assert all(isinstance(text, str) for text in resource.strategy.warn(new, old))
    if rules.warn is not None:
        assert all(isinstance(text, str) for text in rules.warn(new, old))


def stored(resource: ServedResource, document: Document) -> None:
    """What is asked of a stored object, which another release may have written."""
    strategy = resource.strategy
    for getter in resource.selectable_fields.values():
        assert isinstance(getter(document), str)
    strategy.blockers(document)
    if strategy.grace_period_s is not None:
        for asked in (None, 0, 2**63 - 1):
            strategy.grace_period_s(copy.deepcopy(document), asked)
    if strategy.mark_deleted is not None:
        strategy.mark_deleted(copy.deepcopy(document), CREATED)
    for subresource in resource.subresources.values():
        if subresource.scale is not None:
            with contextlib.suppress(Invalid):
                scaled = ScaledType(resource, subresource.scale, SPOKEN)
                orjson.dumps(scaled.scale_of(copy.deepcopy(document)))


SPOKEN: Final = TYPES["v1/configmaps"]  # A scale's kind does not matter to what is in it.


@pytest.mark.parametrize("resource", TYPES.values(), ids=TYPES)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_rules_answer_whatever_passes_the_schema(resource: ServedResource, seed: int) -> None:
    random = Random(seed)
    new, old = changed(resource, random), changed(resource, random)
    if new is None:
        return
    shown(resource, new)
    before = created(resource, new)
    stored(resource, before)
    again = resource.codec.from_hub(copy.deepcopy(before))
    resource.check(again)
    shown(resource, again)
    if old is not None:
        before = resource.codec.to_hub(copy.deepcopy(old))
    for rules in updates(resource):
        updated(resource, rules, new, before)
