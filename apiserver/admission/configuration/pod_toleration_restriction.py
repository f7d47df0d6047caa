"""Reads the tolerations of the plugin PodTolerationRestriction, for namespaces without annotations.

Source: kubernetes, plugin/pkg/admission/podtolerationrestriction/apis/podtolerationrestriction.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from apiserver.meta import names
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.wire.configuration_fields import ConfigurationObject

_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS: Final = ("", "Equal", "Exists")


class TolerationRestriction(NamedTuple):
    """The tolerations of pods. default: those that pods get. allowed: those they may have; empty: any."""

    default: tuple[Document, ...] = ()
    allowed: tuple[Document, ...] = ()


def parse(document: Any, brand: Brand) -> TolerationRestriction:
    """Returns the tolerations that a configuration file sets. Raises InvalidConfiguration."""
    group = brand.group("podtolerationrestriction.admission")
    with ConfigurationObject(document) as fields:
        fields.require_kind((f"{group}/v1alpha1", "Configuration"))
        default, allowed = (
            tuple(map(_toleration, fields.objects(name))) for name in ("default", "whitelist")
        )
    return TolerationRestriction(default, allowed)


def _toleration(fields: ConfigurationObject) -> Document:
    with fields:
        key, operator, value, effect = map(fields.text, ("key", "operator", "value", "effect"))
        seconds = fields.integer("tolerationSeconds") if fields.has("tolerationSeconds") else None
        fields.any("tolerationSeconds")
    if key and (problems := names.qualified_name(key)):
        raise fields.fail("key", f'"{key}": {"; ".join(problems)}')
    if operator not in _OPERATORS:
        raise fields.fail("operator", f'"{operator}" is not one of Equal, Exists')
    if effect not in _EFFECTS:
        raise fields.fail("effect", f'"{effect}" is not one of {", ".join(_EFFECTS[1:])}')
    if not key and operator != "Exists":
        raise fields.fail("operator", "must be Exists when `key` is empty, which means to match all")
    if operator == "Exists" and value:
        raise fields.fail("value", "must be empty when `operator` is Exists")
    if seconds is not None and effect != "NoExecute":
        raise fields.fail("effect", "must be NoExecute when `tolerationSeconds` is set")
    given = {"key": key, "operator": operator, "value": value, "effect": effect}
    found: Document = {name: text for name, text in given.items() if text}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}
