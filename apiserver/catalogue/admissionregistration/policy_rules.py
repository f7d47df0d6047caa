"""Rules that validating and mutating policies, and their bindings, share.

Source: pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Final

from apiserver.catalogue.admissionregistration.expressions import (
    MatchConditionExpressions,
    PolicyExpressions,
    condition_texts,
    policy_texts,
    too_many_expressions,
)
from apiserver.catalogue.admissionregistration.match_rules import (
    FAILURE_POLICIES,
    required_one_of,
    validate_match_conditions,
    validate_match_resources,
    validate_mutating_operations,
)
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, forbidden, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import named, one_of
from apiserver.schema.validation.documents import at, items
from apiserver.schema.validation.label_selectors import label_selector

_NOT_FOUND_ACTIONS: Final = ("Deny", "Allow")

# If none of these changes, match conditions are not checked again.
_OF_CONDITIONS: Final = ("paramKind", "matchConditions")

# ---- policies


def too_many_policy_expressions(spec: Document, old: Document | None) -> Errors:
    texts, old_texts = (chain(condition_texts(each), policy_texts(each)) for each in (spec, old or {}))
    return too_many_expressions("spec", texts, old_texts)


def validate_common_fields(
    spec: Document,
    old: Document | None,
    expressions: PolicyExpressions,
    compatibility: CompatibilityVersion,
    *,
    is_mutating: bool = False,
) -> Errors:
    """Checks the fields that both kinds of policies have. old: the spec before an update."""
    errors = required_one_of("spec.failurePolicy", spec.get("failurePolicy"), FAILURE_POLICIES)
    if (kind := spec.get("paramKind")) is not None:
        errors += _param_kind("spec.paramKind", kind)
    if (constraints := spec.get("matchConstraints")) is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += validate_match_resources("spec.matchConstraints", constraints)
        if not constraints.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
        if is_mutating:
            errors += validate_mutating_operations("spec.matchConstraints", constraints)
    if old is None or any(spec.get(field) != old.get(field) for field in _OF_CONDITIONS):
        has_params = spec.get("paramKind") is not None
        conditions = MatchConditionExpressions([old or {}], compatibility, has_params=has_params)
        errors += validate_match_conditions("spec", spec, conditions)
    for where, variable in items(spec, "variables", "spec"):
        errors += _variable(where, variable, expressions)
    return errors


def _param_kind(path: str, kind: Document) -> Errors:
    version_path, api_version, name = f"{path}.apiVersion", kind.get("apiVersion", ""), kind.get("kind", "")
    errors: Errors = []
    group, _, version = api_version.rpartition("/")
    if not api_version:
        errors.append(required(version_path))
    elif "/" in group:
        text = f"unexpected GroupVersion string: {api_version}"
        errors.append(invalid(version_path, api_version, text))
    else:
        if group and (problems := names.dns_subdomain(group)):
            errors.append(invalid(version_path, group, ",".join(problems)))
        if not version:
            errors.append(invalid(version_path, api_version, "version must be specified"))
        elif problems := names.dns1035_label(version):
            errors.append(invalid(version_path, version, ",".join(problems)))
    if not name:
        errors.append(required(f"{path}.kind"))
    elif problems := names.dns1035_label(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        errors.append(invalid(f"{path}.kind", name, text))
    return errors


_is_identifier = re.compile("[_a-zA-Z][_a-zA-Z0-9]*").fullmatch
_is_reserved = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return"
    "|var|void|while"
).fullmatch


def _variable(path: str, variable: Document, expressions: PolicyExpressions) -> Errors:
    name = variable.get("name", "")
    errors: Errors = []
    if not name.strip():
        errors.append(required(f"{path}.name", "name is not specified"))
    elif not _is_identifier(name) or _is_reserved(name):
        errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if not variable.get("expression", "").strip():
        return [*errors, required(f"{path}.expression", "expression is not specified")]
    return errors + expressions.variable(f"{path}.expression", variable)


# ---- bindings


_EXCLUSIVE: Final = "name and selector are mutually exclusive"


def validate_param_ref(path: str, ref: Document | None) -> Errors:
    if ref is None:
        return []
    name, selector = ref.get("name", ""), ref.get("selector")
    errors = named(f"{path}.name", name, names.path_segment, is_required=False)
    is_both = bool(name) and selector is not None
    if is_both:
        errors.append(forbidden(f"{path}.name", _EXCLUSIVE))
    errors += label_selector(f"{path}.selector", selector)
    if is_both:
        errors.append(forbidden(f"{path}.selector", _EXCLUSIVE))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action, where = ref.get("parameterNotFoundAction"), f"{path}.parameterNotFoundAction"
    return errors + one_of(where, action, _NOT_FOUND_ACTIONS, required_text="")


# ---- columns


def param_kind_cell(document: Document, now: float) -> str:
    kind = at(document, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"


def param_ref_cell(document: Document, now: float) -> str:
    ref = at(document, "spec", "paramRef")
    if not ref:
        return "<unset>"
    name, namespace = ref.get("name"), ref.get("namespace")
    if not name:
        return f"{namespace}/*" if namespace else "*"
    return f"{namespace}/{name}" if namespace else str(name)
