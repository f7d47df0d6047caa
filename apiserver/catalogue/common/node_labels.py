"""Labels of nodes that were renamed, and warnings about selectors that still use them.

Source: pkg/api/node, util.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.meta import names
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import items

# What a warning says of a label.
DEPRECATED_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def selector_warnings(path: str, selector: Document) -> Iterator[str]:
    """Returns warnings about labels in a LabelSelector that selects nodes."""
    for where, expression in items(selector, "matchExpressions", path):
        yield from _key_warnings(where, expression)
    for label in sorted(selector.get("matchLabels") or ()):
        if text := DEPRECATED_NODE_LABELS.get(label):
            yield f"{path}.matchLabels.{label}: {text}"


def term_warnings(path: str, term: Document, *, checks_values: bool) -> Iterator[str]:
    """Returns warnings about labels in a term of a NodeSelector. checks_values: also check values."""
    for where, expression in items(term, "matchExpressions", path):
        yield from _key_warnings(where, expression)
        for place, value in items(expression, "values", where) if checks_values else ():
            for problem in names.label_value(value):
                yield f"{place}: {value} is invalid, {problem}"


def _key_warnings(path: str, expression: Document) -> Iterator[str]:
    key = expression.get("key", "")
    if text := DEPRECATED_NODE_LABELS.get(key):
        yield f"{path}.key: {key} is {text}"
