"""The file of `--history-policy`: which resources the history keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from apiserver.cli.bounded_files import read_bounded
from apiserver.meta import names
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import GroupResource
from apiserver.registry.history.policy import ANY, HistoryAction, HistoryRule
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration, decode

_KIND: Final = "HistoryPolicy"
_ACTIONS: Final = {each.value: each for each in HistoryAction}
RULES_MAX: Final = 1_000
RESOURCES_MAX: Final = 1_000


def read_history_policy(path: Path, brand: Brand) -> tuple[HistoryRule, ...]:
    """Read a policy file. Raises InvalidConfiguration, whose line names the file and what is wrong."""
    try:
        return parse_history_policy(read_bounded(path), brand)
    except OSError as error:
        raise InvalidConfiguration(f"{path}: {error.strerror or error}") from None
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error}") from None


def parse_history_policy(content: bytes, brand: Brand) -> tuple[HistoryRule, ...]:
    """Returns the rules that a file's content describes. Raises InvalidConfiguration."""
    with ConfigurationObject(decode(content)) as fields:
        fields.require_kind((f"{brand.group('apiserver.config')}/v1alpha1", _KIND))
        rules = [_rule(each) for each in fields.objects("rules")]
        if not 0 < len(rules) <= RULES_MAX:
            raise fields.fail("rules", f"must have 1 to {RULES_MAX} rules")
        named = Counter(pair for rule in rules for pair in rule.resources)
        if twice := next((pair for pair, count in named.items() if count > 1), None):
            name = ANY if twice == (ANY, ANY) else str(GroupResource(*twice))
            raise fields.fail("rules", f"must name each resource once, unlike {name}")
    return tuple(rules)


def _rule(fields: ConfigurationObject) -> HistoryRule:
    with fields:
        resources = tuple(_resources(fields))
        action = fields.text("action")
        if action not in _ACTIONS:
            raise fields.fail("action", f"must be {', '.join(_ACTIONS)}, not {action!r}")
    return HistoryRule(resources, _ACTIONS[action])


def _resources(fields: ConfigurationObject) -> Iterator[tuple[str, str]]:
    """Yields pairs of group and resource."""
    given = fields.texts("resources")
    if not 0 < len(given) <= RESOURCES_MAX:
        raise fields.fail("resources", f"must have 1 to {RESOURCES_MAX} names")
    for name in given:
        resource, _, group = name.partition(".")
        if name == ANY:
            yield ANY, ANY
        elif names.dns_label(resource) or ("." in name and names.dns_subdomain(group)):
            why = f"must have names such as events, deployments.apps or {ANY}, not {name!r}"
            raise fields.fail("resources", why)
        else:
            yield group, resource
