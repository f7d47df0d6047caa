"""FlowSchemas. Source: pkg/apis/flowcontrol/{validation,v1}, rows T01, T02.

Without the mandatory objects a server could not be reached; their specs are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_without_metadata
from apiserver.golang.formatting import go_struct_fields
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, invalid, not_supported, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status_with_old_metadata
from apiserver.schema.validation.checks import named, uniqueness
from apiserver.schema.validation.documents import at, items

_ALL: Final = "*"


def _complete_spec(spec: Document) -> None:
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


# ---- the specs of the mandatory objects, by name


def everything(*subjects: Document) -> Document:
    """Returns a rule that matches all requests of some subjects."""
    return {
        "subjects": list(subjects),
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


def _for_groups(level: str, precedence: int, groups: Sequence[str], **more: Any) -> Document:
    return {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [everything(*({"kind": "Group", "group": {"name": group}} for group in groups))],
        **more,
    }


MANDATORY_FLOW_SCHEMAS: Final[Mapping[str, Document]] = {
    "exempt": _for_groups("exempt", 1, ("system:masters",)),
    "catch-all": _for_groups(
        "catch-all",
        10_000,
        ("system:unauthenticated", "system:authenticated"),
        distinguisherMethod={"type": "ByUser"},
    ),
}


_PRECEDENCE_MAX: Final = 10_000
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")


def validate_flow_schema(document: Document) -> Errors:
    spec, name = document.get("spec", {}), document["metadata"].get("name", "")
    errors = _precedence("spec.matchingPrecedence", spec.get("matchingPrecedence", 0), name)
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        shown = go_struct_fields({"type": ""} | method)
        errors.append(not_supported("spec.distinguisherMethod.type", shown, _METHODS))
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


# The field that names the subject, by kind of subject.
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


def validate_conditions(document: Document, old: Document | None = None) -> Errors:
    errors: Errors = []
    unique = uniqueness()
    for where, condition in items(document.get("status", {}), "conditions", "status"):
        kind = condition.get("type", "")
        errors += unique(f"{where}.type", kind)
        if not kind:
            errors.append(required(f"{where}.type"))
    return errors


# ---- columns


def _is_dangling(document: Document, now: float) -> str:
    conditions = at(document, "status", "conditions") or ()
    return next((c.get("status", "") for c in conditions if c.get("type") == "Dangling"), "?")


BUILTIN_TYPE: Final = BuiltinType(
    "flowcontrol.apiserver.",
    "v1",
    "flowschemas",
    "FlowSchema",
    is_namespaced=False,
    subresources=(status_without_metadata(validate_conditions, only_status_with_old_metadata),),
    defaults={"io.k8s.api.flowcontrol.v1.FlowSchemaSpec": _complete_spec},
    strategy=Strategy(
        prepare_create=clear_status,
        validate=validate_flow_schema,
        update=UpdateStrategy(prepare=keep_status),
        has_generation=True,
    ),
    columns=columns(
        Column(
            "PriorityLevel",
            field_cell("spec", "priorityLevelConfiguration", "name"),
            "The priority level of the requests.",
        ),
        Column(
            "MatchingPrecedence",
            field_cell("spec", "matchingPrecedence", default=0),
            "The precedence among schemas that match a request; the lowest number wins.",
        ),
        Column(
            "DistinguisherMethod",
            field_cell("spec", "distinguisherMethod", "type", default="<none>"),
            "The method that divides requests into flows: ByUser, ByNamespace, or none.",
        ),
        AGE,
        Column("MissingPL", _is_dangling, "Whether the priority level is missing."),
    ),
)
