"""Reads the selectors of the plugin PodNodeSelector: the nodes that pods of a namespace may run on.

Source: kubernetes, plugin/pkg/admission/podnodeselector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apiserver.meta import names
from apiserver.meta.field_errors import truncated
from apiserver.wire.configuration_fields import ConfigurationObject

FIELD: Final = "podNodeSelectorPluginConfig"
# In place of a namespace: the selector of namespaces whose annotations have none.
CLUSTER_DEFAULT: Final = "clusterDefaultNodeSelector"
# The text may be an annotation, of 256 KiB.
LABELS_MAX: Final = 250

NodeSelectors = Mapping[str, Mapping[str, str]]


class InvalidSelector(ValueError):
    """A text is not a selector of labels by their values."""


def parse(document: Any) -> NodeSelectors:
    """Returns the selectors by namespace. Raises InvalidConfiguration."""
    fields = ConfigurationObject(document)  # The same file may configure another plugin.
    found = {}
    for namespace, text in fields.text_map(FIELD).items():
        try:
            found[namespace] = labels_of(text)
        except InvalidSelector as error:
            raise fields.object(FIELD).fail(namespace, str(error)) from None
    return found


def labels_of(text: str) -> dict[str, str]:
    """Returns the labels in `a=b, c=d`. Raises InvalidSelector."""
    labels = {}
    if text.count(",") >= LABELS_MAX:
        raise InvalidSelector(f"a selector has at most {LABELS_MAX} labels")
    for part in text.split(",") if text else ():
        key, _, value = map(str.strip, part.partition("="))
        if part.count("=") != 1:
            raise InvalidSelector(f"invalid selector: {truncated(part)}")
        problems = [*names.qualified_name(key), *names.label_value(value)]
        if problems:
            raise InvalidSelector(f"invalid selector: {truncated(part)}: {'; '.join(problems)}")
        labels[key] = value
    return labels
