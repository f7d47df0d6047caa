"""Reads the selectors in the attributes of a request, for authorizers that use them.

Requirements with operators that access reviews do not have (`>`, `<`), and selectors with syntax errors, are
left out: without them a request is about more objects, so no request is wrongly allowed. Source:
k8s.io/apiserver, pkg/endpoints/filters/authorization.go and plugin/pkg/authorizer/webhook/webhook.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.auth.authz.attributes import Attributes, SelectorRequirement
from apiserver.meta.selectors import SelectorSyntaxError, parse_field_selector, parse_label_selector

# Callers choose them, and are not authorized yet: longer ones are not read.
LENGTH_MAX: Final = 8_192
_LABEL_OPERATORS: Final = {"in": "In", "notin": "NotIn", "exists": "Exists", "!": "DoesNotExist"}


def field_requirements(attributes: Attributes) -> Sequence[SelectorRequirement]:
    """Returns the requirements of a field selector, each with the operator In or NotIn, and one value."""
    selector = attributes.field_selector
    if not isinstance(selector, str):
        return selector
    if not selector or len(selector) > LENGTH_MAX:
        return ()
    try:
        found = parse_field_selector(selector, None).requirements
    except SelectorSyntaxError:
        return ()
    return [
        SelectorRequirement(each.field, "In" if each.is_equal else "NotIn", (each.value,)) for each in found
    ]


def label_requirements(attributes: Attributes) -> Sequence[SelectorRequirement]:
    selector = attributes.label_selector
    if not isinstance(selector, str):
        return selector
    if not selector or len(selector) > LENGTH_MAX:
        return ()
    try:
        found = parse_label_selector(selector).requirements
    except SelectorSyntaxError:
        return ()
    return [
        SelectorRequirement(each.key, operator, tuple(sorted(each.values)))
        for each in found
        if (operator := _LABEL_OPERATORS.get(each.operator)) is not None
    ]


def requires_field(attributes: Attributes, field: str, value: str) -> bool:
    """Returns whether a selector selects only objects whose field has a value."""
    wanted = SelectorRequirement(field, "In", (value,))
    return any(each == wanted for each in field_requirements(attributes))
