"""Extensions whose functions make objects invalid: `fail`, `ignore` and `warn` are what their errors do to
writes, in a worker, and inline with `inline_` before.

Each function is about the objects whose label `case` is its name, and whose label `in` is its extension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.extensions import Extension

GROUP: Final = "invalidating.example.com"
WIDGETS: Final = f"widgets.{GROUP}"
ON_ERROR: Final = ("fail", "ignore", "warn")
Function = Callable[..., Any]
# By the names of attributes, as the flag takes them.
extensions: Final = {
    f"{prefix}{on_error}": Extension(f"{prefix}{on_error}".replace("_", "-"), timeout_s=5, on_error=on_error)
    for on_error in ON_ERROR
    for prefix in ("", "inline_")
}
globals().update(extensions)


def mutates(resource: str, **options: Any) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        for name, extension in extensions.items():
            labels = f"{{'in': '{extension.name}', 'case': '{function.__name__}'}}"
            extension.mutate(
                resource,
                where=f"has(object.metadata.labels) && object.metadata.labels == {labels}",
                inline=name.startswith("inline"),
                **options,
            )(function)
        return function

    return add


@mutates(WIDGETS)
def sets_a_wrong_type(widget: Any) -> None:
    widget["spec"]["size"] = "seven"


@mutates(WIDGETS)
def sets_too_large_a_number(widget: Any) -> None:
    widget["spec"]["size"] = 100


@mutates(WIDGETS)
def removes_a_required_field(widget: Any) -> None:
    del widget["spec"]["size"]


@mutates(WIDGETS)
def breaks_a_rule(widget: Any) -> None:
    widget["spec"]["most"] = 1


@mutates(WIDGETS, on="update")
def changes_what_a_rule_keeps(widget: Any) -> None:
    widget["spec"]["fixed"] = "changed"


@mutates(f"{WIDGETS}/status", on="update")
def sets_a_wrong_status(widget: Any) -> None:
    widget["status"]["phase"] = "Unknown"


@mutates("configmaps", on="update")
def changes_immutable_data(config_map: Any) -> None:
    config_map["data"]["a"] = "changed"


@mutates("deployments.apps", on="update")
def changes_the_selector(deployment: Any) -> None:
    deployment["spec"]["selector"]["matchLabels"]["a"] = "changed"


@mutates("configmaps", on="create")
def sets_a_resource_version(config_map: Any) -> None:
    config_map["metadata"]["resourceVersion"] = "7"


@mutates("configmaps")
def moves_it(config_map: Any) -> None:
    config_map["metadata"]["namespace"] = "kube-system"


@mutates("configmaps", on="update")
def renames_it(config_map: Any) -> None:
    config_map["metadata"]["name"] = "other"


@mutates("configmaps", on="update")
def gives_it_another_uid(config_map: Any) -> None:
    config_map["metadata"]["uid"] = "1-2-3"


@mutates("configmaps")
def sets_an_invalid_annotation(config_map: Any) -> None:
    config_map["metadata"]["annotations"] = {"not a key": "b"}


# ---- one of two: both are about the objects of this case


def marks(widget: Any) -> None:
    """Counts how often it has been called for an object."""
    spec = widget["spec"]
    spec["marks"] = spec.get("marks", 0) + 1


marks.__name__ = "is_beside_another"
mutates(WIDGETS)(marks)


@mutates(WIDGETS)
def is_beside_another(widget: Any) -> None:
    widget["spec"]["size"] = "seven"


@mutates(WIDGETS)
def sets_another_field(widget: Any) -> None:
    widget["spec"]["marks"] = 1
