"""FlowSchemas and PriorityLevelConfigurations. Source: pkg/apis/flowcontrol/{validation,v1}, rows T01, T02.

The mandatory objects are those without which a server could not be reached; nobody changes what they say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apiserver.field_errors import duplicate, forbidden, invalid, not_supported, required
from apiserver.meta import names
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, in_range, items, named
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.api.flowcontrol.v1."
_ALL: Final = "*"


def _unless_zero(**values: int) -> Default:
    """Numbers of which 0 means that nobody has chosen."""

    def complete(value: Document) -> None:
        for field, number in values.items():
            value[field] = value.get(field) or number

    return complete


def _unless_set(**values: int) -> Default:
    def complete(value: Document) -> None:
        for field, number in values.items():
            if value.get(field) is None:
                value[field] = number

    return complete


DEFAULTS: Final[Mapping[str, Default]] = {
    f"{_PACKAGE}FlowSchemaSpec": _unless_zero(matchingPrecedence=1000),
    f"{_PACKAGE}QueuingConfiguration": _unless_zero(queues=64, handSize=8, queueLengthLimit=50),
    f"{_PACKAGE}LimitedPriorityLevelConfiguration": _unless_set(
        nominalConcurrencyShares=30, lendablePercent=0
    ),
    f"{_PACKAGE}ExemptPriorityLevelConfiguration": _unless_set(nominalConcurrencyShares=0, lendablePercent=0),
}


# ---- the mandatory objects: specs by name


def _everything(level: str, precedence: int, groups: Sequence[str], **more: Any) -> Document:
    return {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [
            {
                "subjects": [{"kind": "Group", "group": {"name": group}} for group in groups],
                "resourceRules": [
                    {
                        "verbs": [_ALL],
                        "apiGroups": [_ALL],
                        "resources": [_ALL],
                        "clusterScope": True,
                        "namespaces": [_ALL],
                    }
                ],
                "nonResourceRules": [{"verbs": [_ALL], "nonResourceURLs": [_ALL]}],
            }
        ],
        **more,
    }


MANDATORY_FLOW_SCHEMAS: Final[Mapping[str, Document]] = {
    "exempt": _everything("exempt", 1, ("system:masters",)),
    "catch-all": _everything(
        "catch-all",
        10_000,
        ("system:unauthenticated", "system:authenticated"),
        distinguisherMethod={"type": "ByUser"},
    ),
}
MANDATORY_PRIORITY_LEVELS: Final[Mapping[str, Document]] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 5,
            "lendablePercent": 0,
            "limitResponse": {"type": "Reject"},
        },
    },
}


# ---- FlowSchema

_PRECEDENCE_MAX: Final = 10_000
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")


def validate_flow_schema(document: Document) -> Errors:
    spec, name = document.get("spec", {}), document["metadata"].get("name", "")
    errors = _precedence("spec.matchingPrecedence", spec.get("matchingPrecedence", 0), name)
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        errors.append(not_supported("spec.distinguisherMethod.type", method.get("type", ""), _METHODS))
    level, level_path = spec.get("priorityLevelConfiguration", {}), "spec.priorityLevelConfiguration.name"
    if level.get("name"):
        errors += named(level_path, level["name"], names.dns_subdomain)
    else:
        errors.append(required(level_path, "must reference a priority level"))
    for where, rule in items(spec, "rules", "spec"):
        errors += _rule(where, rule)
    fixed = MANDATORY_FLOW_SCHEMAS.get(name)
    if fixed is not None and spec != fixed:
        errors.append(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
    return errors + validate_conditions(document)


def _precedence(path: str, value: int, name: str) -> Errors:
    errors: Errors = []
    if value <= 0:
        errors.append(invalid(path, value, "must be a positive value"))
    if value > _PRECEDENCE_MAX:
        errors.append(invalid(path, value, f"must not be greater than {_PRECEDENCE_MAX}"))
    if value == 1 and name != "exempt":
        text = "only the schema named 'exempt' may have matchingPrecedence 1"
        errors.append(invalid(path, value, text))
    return errors


def _rule(path: str, rule: Document) -> Errors:
    errors: Errors = []
    if not rule.get("subjects"):
        errors.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    for where, subject in items(rule, "subjects", path):
        errors += _subject(where, subject)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(path, text))
    for where, each in items(rule, "resourceRules", path):
        errors += _resource_rule(where, each)
    for where, each in items(rule, "nonResourceRules", path):
        errors += _verbs(where, each) + _urls(where, each)
    return errors


# By kind of subject: the field that says who it is.
_SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}


def _subject(path: str, subject: Document) -> Errors:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        return [not_supported(f"{path}.kind", kind, tuple(_SUBJECTS))]
    field = _SUBJECTS[kind]
    who = subject.get(field)
    where = f"{path}.{field}"
    if who is None:
        errors = [required(where, f"{field} is required when subject kind is '{kind}'")]
    elif kind == "ServiceAccount":
        errors = _account(where, who)
    else:
        errors = [] if who.get("name") else [required(f"{where}.name")]
    return errors + [
        forbidden(f"{path}.{other}", f"{other} is forbidden when subject kind is not '{other_kind}'")
        for other_kind, other in sorted(_SUBJECTS.items(), key=lambda item: "sug".index(item[1][0]))
        if other != field and subject.get(other) is not None
    ]


def _account(path: str, account: Document) -> Errors:
    name, namespace = account.get("name", ""), account.get("namespace", "")
    errors = named(f"{path}.name", name, names.dns_subdomain) if name != _ALL else []
    if not namespace:
        text = "must specify namespace for service account"
        return [*errors, required(f"{path}.namespace", text)]
    return errors + named(f"{path}.namespace", namespace, names.dns_label)


def _resource_rule(path: str, rule: Document) -> Errors:
    errors = _verbs(path, rule)
    for field, one, all_of in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        values = rule.get(field) or []
        if not values:
            errors.append(required(f"{path}.{field}", f"resource rules must supply at least one {one}"))
        errors += _alone(f"{path}.{field}", values, all_of)
    namespaces, where = rule.get("namespaces") or [], f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(required(where, text))
    if _ALL in namespaces:
        return errors + _alone(where, namespaces, "namespaces")
    intro = "each member of this list must be '*' or a DNS-1123 label; "
    return errors + [
        invalid(f"{where}[{index}]", namespace, intro + problem)
        for index, namespace in enumerate(namespaces)
        for problem in names.dns_label(namespace)
    ]


def _verbs(path: str, rule: Document) -> Errors:
    verbs, where = rule.get("verbs") or [], f"{path}.verbs"
    if not verbs:
        return [required(where, "verbs must contain at least one value")]
    if _ALL in verbs:
        return _alone(where, verbs, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [not_supported(where, verbs, _VERBS)]


def _urls(path: str, rule: Document) -> Errors:
    urls, where = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs"
    if not urls:
        return [required(where, "nonResourceURLs must contain at least one value")]
    if _ALL in urls:
        return _alone(where, urls, "non-resource URLs")
    return [
        invalid(f"{where}[{index}]", url, problem)
        for index, url in enumerate(urls)
        if (problem := _url_problem(url))
    ]


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def _alone(path: str, values: Sequence[str], what: str) -> Errors:
    if len(values) > 1 and _ALL in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


# ---- PriorityLevelConfiguration

_LEVEL_TYPES: Final = ("Exempt", "Limited")
_RESPONSES: Final = ("Queue", "Reject")
_QUEUES_MAX: Final = 10_000_000
_HASH_BITS: Final = 60


def validate_priority_level(document: Document) -> Errors:
    spec, name = document.get("spec", {}), document["metadata"].get("name", "")
    kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
    errors: Errors = []
    if (name == "exempt") != (kind == "Exempt"):
        text = "type must be 'Exempt' if and only if name is 'exempt'"
        errors.append(invalid("spec.type", kind, text))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        errors += _shares("spec.exempt", exempt or {})
    elif kind == "Limited":
        if exempt is not None:
            errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
        if limited is None:
            errors.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            errors += _limited("spec.limited", limited)
    else:
        errors.append(not_supported("spec.type", kind, _LEVEL_TYPES))
    return errors + _fixed(name, spec) + validate_conditions(document)


def _fixed(name: str, spec: Document) -> Errors:
    """How much the exempt level lends may be changed, but nothing else."""
    fixed = MANDATORY_PRIORITY_LEVELS.get(name)
    if fixed is None:
        return []
    changeable, exception = ("exempt", " except the 'spec.exempt' field") if name == "exempt" else ("", "")
    if _without(spec, changeable) == _without(fixed, changeable):
        return []
    return [invalid("spec", spec, f"spec of '{name}'{exception} must equal the fixed value")]


def _without(spec: Document, field: str) -> Document:
    return {name: value for name, value in spec.items() if name != field}


def _shares(path: str, value: Document) -> Errors:
    shares = value.get("nominalConcurrencyShares")
    errors: Errors = []
    if shares is not None and shares < 0:
        text = "must be a non-negative integer"
        errors.append(invalid(f"{path}.nominalConcurrencyShares", shares, text))
    return errors + in_range(f"{path}.lendablePercent", value.get("lendablePercent"), 0, 100)


def _limited(path: str, limited: Document) -> Errors:
    borrowing = limited.get("borrowingLimitPercent")
    errors = _shares(path, limited)
    if borrowing is not None and borrowing < 0:
        text = "if specified, must be a non-negative integer"
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowing, text))
    response = limited.get("limitResponse", {})
    where, kind, queuing = f"{path}.limitResponse", response.get("type", ""), response.get("queuing")
    if kind not in _RESPONSES:
        errors.append(not_supported(f"{where}.type", kind, _RESPONSES))
    elif kind == "Reject" and queuing is not None:
        text = "must be nil if limited.limitResponse.type is not Limited"
        errors.append(forbidden(f"{where}.queuing", text))
    elif kind == "Queue" and queuing is None:
        text = "must not be empty if limited.limitResponse.type is Limited"
        errors.append(required(f"{where}.queuing", text))
    elif queuing is not None:
        errors += _queuing(f"{where}.queuing", queuing)
    return errors


def _queuing(path: str, queuing: Document) -> Errors:
    queues, hand = queuing.get("queues", 0), queuing.get("handSize", 0)
    limit, hand_path = queuing.get("queueLengthLimit", 0), f"{path}.handSize"
    errors: Errors = []
    if limit <= 0:
        errors.append(invalid(f"{path}.queueLengthLimit", limit, "must be positive"))
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _QUEUES_MAX:
        text = f"must not be greater than {_QUEUES_MAX}"
        errors.append(invalid(f"{path}.queues", queues, text))
    if hand <= 0:
        errors.append(invalid(hand_path, hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(hand_path, hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        text = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than "
            f"{_HASH_BITS}"
        )
        errors.append(invalid(hand_path, hand, text))
    return errors


# ---- both


def validate_conditions(document: Document) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for where, condition in items(document.get("status", {}), "conditions", "status"):
        kind = condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(f"{where}.type", kind))
        seen.add(kind)
        if not kind:
            errors.append(required(f"{where}.type", "must not be empty"))
    return errors
