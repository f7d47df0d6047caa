"""Facts about Kubernetes' Go types that schemas lack: protobuf numbers, and which zero values are encoded.

`go_fields.json` has an entry for each definition, and in it a string for each field: the field's number in
protobuf, then `p` if it is a pointer (so that zero and absent differ), `m` if it is a list that is a separate
message in protobuf, with the items in its first field, and `!` if JSON has it even when it is empty. A name
that begins with `>` is an inlined definition: its fields are among the others in JSON, and in a separate
message, with this number, in protobuf. A few definitions have no fields in JSON, where they are one of
several types (`JSONSchemaPropsOrBool` and similar ones): their names are those of protobuf.

The facts are those of release 1.36, from the field tags in the `types.go` files of k8s.io/api,
k8s.io/apimachinery, k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator. Fields of former releases are
kept, as numbers are never reused, and those of 1.37 are included. `other_go_fields.json` has the same facts
about the definitions that former releases had (`builtin`), and those that a later one adds.
`tests/support/go_types.py` reads the same facts from a kubectl, and checks these.

`enums.json` has the values of the types that are marked `+enum`, and the fields of these types.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import orjson

from apiserver.schema.extensions import KUBERNETES_VENDOR, with_vendor

# Only definitions have such keys: fields do not, and references are values.
_NAME: Final = re.compile(rb'[{,]\s*"(io\.k8s\.[^"]+)":')
# A definition and the path of a field below it.
_PLACE: Final = re.compile(r"(.+\.v[a-z0-9]+\.[A-Z]\w*)\.(.+)")


# Fields by name, each with those in it.
FieldPaths: TypeAlias = Mapping[str, "FieldPaths"]


def undecoded(definitions: bytes) -> dict[str, bytes]:
    """Returns the members of a JSON object that has one for each definition, without decoding them.

    Most servers need a few of them, and all of them decoded take five times the memory.
    """
    _, *parts = _NAME.split(definitions.rstrip().removesuffix(b"}"))
    return dict(zip(map(bytes.decode, parts[::2]), parts[1::2], strict=True))


class GoField(NamedTuple):
    """The facts about one field of a Go type.

    number: in protobuf messages.
    is_pointer: whether zero differs from absent.
    encodes_zero: whether JSON has the zero value, too.
    is_message: whether the list in protobuf is a message with one repeated field, and not a repeated field.
    """

    number: int
    is_pointer: bool
    encodes_zero: bool
    is_message: bool = False


class GoStruct(NamedTuple):
    """The fields of a Go type by their JSON names.

    inlined: the protobuf numbers of the definitions whose fields are among them in JSON.
    """

    fields: dict[str, GoField]
    inlined: dict[str, int]


def go_struct(definition: str, vendor: str = KUBERNETES_VENDOR) -> GoStruct | None:
    """Returns the Go type of a definition, as `io.k8s.api.core.v1.Pod`; None if it is not in the data.

    vendor: as in the extension key `x-kubernetes-list-type`.
    """
    entry = _facts("go_fields.json").get(definition)
    if entry is None and ".v" in definition:
        entry = _facts("other_go_fields.json").get(definition)
    if entry is None:
        return None
    fields, inlined = {}, {}
    for name, text in orjson.loads(entry).items():
        name = with_vendor(name, vendor)
        number = int(text.rstrip("pm!"))
        if name.startswith(">"):
            inlined[name[1:]] = number
        else:
            fields[name] = GoField(number, "p" in text, "!" in text, "m" in text)
    return GoStruct(fields, inlined)


@cache
def fields_of(definition: str, vendor: str = KUBERNETES_VENDOR) -> Mapping[str, GoField]:
    """Returns all fields that a definition has in JSON, with those of inlined definitions."""
    known = go_struct(definition, vendor)
    if known is None:
        return MappingProxyType({})
    fields = dict(known.fields)
    for inlined in known.inlined:
        fields |= fields_of(inlined, vendor)
    return MappingProxyType(fields)


# Lists and maps that count as set where Kubernetes compares them with nil, though they are empty: as trees of
# fields. Validation refuses all of these that are empty.
_EMPTY_IS_SET: Final[Mapping[str, FieldPaths]] = {
    "io.k8s.api.autoscaling.v2.HPAScalingRules": {"policies": {}},
    "io.k8s.api.autoscaling.v2beta2.HPAScalingRules": {"policies": {}},
    "io.k8s.api.core.v1.EphemeralContainer": {
        "ports": {},
        "resizePolicy": {},
        "resources": {"claims": {}, "limits": {}, "requests": {}},
        "restartPolicyRules": {},
    },
    "io.k8s.api.core.v1.PodSpec": {"resources": {"claims": {}}},
}


def empty_is_set(definition: str) -> FieldPaths:
    """Returns the lists and maps of a definition, and of structs in it, whose empty value differs from
    absent.
    """
    return _EMPTY_IS_SET.get(definition, {})


@cache
def enums_of(definition: str) -> Mapping[str, list[str]]:
    """Returns the values of each field whose Go type is an enumeration, as `restartPolicy` or
    `accessModes.items`.

    They are those of the newest release, regardless of feature gates and rules of the object.
    """
    return MappingProxyType(_enums().get(definition, {}))


@cache
def _enums() -> dict[str, dict[str, list[str]]]:
    text = pkgutil.get_data(__package__, "enums.json")
    assert text is not None
    enums: dict[str, dict[str, list[str]]] = {}
    for enum in orjson.loads(text):
        for place in enum["fields"]:
            found = _PLACE.fullmatch(place)
            assert found is not None, place
            enums.setdefault(found[1], {})[found[2]] = enum["values"]
    return enums


@cache
def _facts(file: str) -> dict[str, bytes]:
    text = pkgutil.get_data(__package__, file)
    assert text is not None
    return undecoded(text)
