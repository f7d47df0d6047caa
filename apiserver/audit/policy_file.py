"""Reads the file of `--audit-policy-file`. Ignored fields cause a warning, as in kube-apiserver.

Source: k8s.io/apiserver, pkg/apis/audit/validation and pkg/audit/policy/reader.go.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.audit.policy import (
    LEVELS,
    STAGES,
    AuditLevel,
    GroupResources,
    Policy,
    PolicyRule,
    RequestConfig,
    Stage,
)
from apiserver.golang.quoting import go_quote
from apiserver.meta.brand import Brand
from apiserver.meta.names import dns_subdomain
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration, decode

KIND: Final = "Policy"
_ALL: Final = "*"


class PolicyFile(NamedTuple):
    """An audit policy file. warning: names the fields that are ignored; empty if there are none."""

    policy: Policy
    warning: str = ""


def read_policy(content: bytes, brand: Brand) -> PolicyFile:
    """Returns the policy in a file. Raises InvalidConfiguration, with a message that names the field."""
    ignored: list[str] = []
    with ConfigurationObject(decode(content, ignored), ignored=ignored) as fields:
        fields.require_kind((f"{brand.group('audit')}/v1", KIND))
        fields.any("metadata")
        stages = _stages(fields)
        omits_managed_fields = fields.boolean("omitManagedFields")
        rules = [_rule(each, stages, omits_managed_fields) for each in fields.objects("rules")]
    if not rules:
        raise InvalidConfiguration("rules: loaded illegal policy with 0 rules")
    policy = Policy(rules, RequestConfig(AuditLevel.NONE, stages, omits_managed_fields))
    if not ignored:
        return PolicyFile(policy)
    problems = ", ".join(ignored)
    return PolicyFile(
        policy,
        "Audit policy contains errors, falling back to lenient decoding: strict decoding error: " + problems,
    )


def _rule(fields: ConfigurationObject, stages: frozenset[Stage], omits_managed_fields: bool) -> PolicyRule:
    """stages, omits_managed_fields: those of the whole policy."""
    with fields:
        level = fields.text("level")
        if not level:
            raise fields.fail("level", "Required value")
        if level not in LEVELS:
            supported = ", ".join(map(go_quote, LEVELS))
            raise fields.fail("level", f"Unsupported value: {go_quote(level)}: supported values: {supported}")
        if fields.has("omitManagedFields"):
            omits_managed_fields = fields.boolean("omitManagedFields")
        else:
            fields.any("omitManagedFields")
        urls = fields.texts("nonResourceURLs")
        _check_urls(fields, urls)
        resources = tuple(_resources(each) for each in fields.objects("resources"))
        namespaces = frozenset(fields.texts("namespaces"))
        if urls and (resources or namespaces):
            raise fields.fail(
                "nonResourceURLs", "rules cannot apply to both regular resources and non-resource URLs"
            )
        return PolicyRule(
            config=RequestConfig(LEVELS[level], stages | _stages(fields), omits_managed_fields),
            users=frozenset(fields.texts("users")),
            user_groups=frozenset(fields.texts("userGroups")),
            verbs=frozenset(fields.texts("verbs")),
            resources=resources,
            namespaces=namespaces,
            non_resource_urls=urls,
        )


def _check_urls(fields: ConfigurationObject, urls: tuple[str, ...]) -> None:
    """Check the paths of a rule's nonResourceURLs. Raises InvalidConfiguration."""
    for index, url in enumerate(urls):
        field = f"nonResourceURLs[{index}]"
        if url == _ALL:
            continue
        if not url.startswith("/"):
            raise fields.fail(
                field,
                f"Invalid value: {go_quote(url)}: non-resource URL rules must begin with a '/' character",
            )
        if "*" in url[:-1]:
            raise fields.fail(
                field,
                f"Invalid value: {go_quote(url)}: non-resource URL wildcards '*' must be the final character "
                "of the rule",
            )


def _resources(fields: ConfigurationObject) -> GroupResources:
    with fields:
        group, resources = fields.text("group"), fields.texts("resources")
        names = fields.texts("resourceNames")
        if group not in ("", _ALL) and (problems := dns_subdomain(group)):
            raise fields.fail("group", f"Invalid value: {go_quote(group)}: {','.join(problems)}")
        if names and not resources:
            raise fields.fail("resourceNames", "using resourceNames requires at least one resource")
        return GroupResources(group, resources, names)


def _stages(fields: ConfigurationObject) -> frozenset[Stage]:
    names = fields.texts("omitStages")
    for index, name in enumerate(names):
        if name not in STAGES:
            raise fields.fail(
                f"omitStages[{index}]",
                f"Invalid value: {go_quote(name)}: allowed stages are {','.join(STAGES)}",
            )
    return frozenset(map(Stage, names))
