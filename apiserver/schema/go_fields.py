"""What Kubernetes' Go types say of their fields beyond the schema: numbers on the wire, and what empty means.

`go_fields.json` has an entry for each definition, and in it for each field a text: the field's number in
protobuf, then `p` if it is a pointer (so that zero and absent differ), `m` if it is a list that is a message
of its own there, with the items in its first field, and `!` if it is shown even when it is empty. A name that
begins with `>` is a definition whose fields stand among the others in JSON, and in a message of their own,
with this number, in protobuf. A few definitions have no fields in JSON, since they are one of several things
there (`JSONSchemaPropsOrBool` and its like): theirs are called as in protobuf.

The facts are those of release 1.34. Most are read from a kubectl of 1.33 by `tests/support/go_types.py`,
which also checks them. What a kubectl does not have, or what is no built-in type, is from the field tags in
the `types.go` files of k8s.io/api (apidiscovery/v2; core/v1: what 1.34 added; resource/v1; storage/v1),
k8s.io/apimachinery (pkg/apis/meta/v1: `GroupVersionKind`, and that verbs are a message),
k8s.io/apiextensions-apiserver (pkg/apis/apiextensions/v1) and k8s.io/kube-aggregator
(pkg/apis/apiregistration/v1).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final, NamedTuple

import orjson


class GoField(NamedTuple):
    """number: in protobuf messages. is_pointer: zero is a value. shows_empty: the zero value is shown.

    is_message: a list that is one field of a message of its own there, and not a field that is repeated.
    """

    number: int
    is_pointer: bool
    encodes_zero: bool
    is_message: bool = False


class GoStruct(NamedTuple):
    """fields: by their JSON names. inlined: the numbers of definitions whose fields stand among these."""

    fields: dict[str, GoField]
    inlined: dict[str, int]


_KUBERNETES: Final = "kubernetes"
_EXTENSION: Final = f"x-{_KUBERNETES}-"


def go_struct(definition: str, vendor: str = _KUBERNETES) -> GoStruct | None:
    """What is known of a definition, as `io.k8s.api.core.v1.Pod`; None if nothing is.

    vendor: in the names of fields that are extensions, as `x-kubernetes-list-type`.
    """
    entry = _facts().get(definition)
    if entry is None:
        return None
    fields, inlined = {}, {}
    for name, text in entry.items():
        if name.startswith(_EXTENSION):
            name = f"x-{vendor}-{name.removeprefix(_EXTENSION)}"
        number = int(text.rstrip("pm!"))
        if name.startswith(">"):
            inlined[name[1:]] = number
        else:
            fields[name] = GoField(number, "p" in text, "!" in text, "m" in text)
    return GoStruct(fields, inlined)


@cache
def fields_of(definition: str, vendor: str = _KUBERNETES) -> Mapping[str, GoField]:
    """All fields of a definition as they stand in JSON, those of inlined ones among them."""
    known = go_struct(definition, vendor)
    if known is None:
        return MappingProxyType({})
    fields = dict(known.fields)
    for inlined in known.inlined:
        fields |= fields_of(inlined, vendor)
    return MappingProxyType(fields)


@cache
def _facts() -> dict[str, dict[str, str]]:
    text = resources.files(__package__).joinpath("go_fields.json").read_bytes()
    facts: dict[str, dict[str, str]] = orjson.loads(text)
    return facts
