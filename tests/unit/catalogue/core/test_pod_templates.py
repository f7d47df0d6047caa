"""PodTemplates. Source: pkg/apis/core/validation, ValidatePodTemplateSpec."""

from __future__ import annotations

from typing import Any, Final

from tests.unit.catalogue.served_kinds import ServedKind, least

PODS: Final[dict[str, Any]] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}

TEMPLATE: Final = ServedKind("podtemplates")


def test_a_template_is_a_template_of_pods() -> None:
    document, errors = TEMPLATE.created(least("PodTemplate", template=PODS))
    assert errors == []
    assert document["template"]["spec"]["restartPolicy"] == "Always"
    assert TEMPLATE.created(least("PodTemplate")).texts == ["template.spec.containers: Required value"]
