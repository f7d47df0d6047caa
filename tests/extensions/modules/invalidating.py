"""Extensions whose functions make objects invalid: `fail`, `ignore` and `warn` are what their errors do to
writes, in a worker, and inline with `inline_` before.

Each function is about the objects whose label `case` is its name, or the case that it belongs to, and whose
label `in` is its extension.
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


def mutates(resource: str, *, case: str = "", **options: Any) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        for name, extension in extensions.items():
            labels = f"{{'in': '{extension.name}', 'case': '{case or function.__name__}'}}"
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
def warns_and_sets_a_wrong_type(widget: Any, warn: Any) -> None:
    warn("the size is seven")
    widget["spec"]["size"] = "seven"


@mutates(WIDGETS)
def sets_too_large_a_number(widget: Any) -> None:
    widget["spec"]["size"] = 100


@mutates(WIDGETS)
def removes_a_required_field(widget: Any) -> None:
    del widget["spec"]["size"]


@mutates(WIDGETS)
def makes_it_too_large(widget: Any) -> None:
    widget["spec"]["fixed"] = "x" * 2_000_000


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


@mutates(WIDGETS)
def breaks_a_rule_of_the_whole_object(widget: Any) -> None:
    widget["spec"]["fixed"] = "b"


@mutates("services", on="create")
def sets_a_type_that_needs_another_field(service: Any) -> None:
    service["spec"]["type"] = "ExternalName"


# ---- one of several functions that change the objects of a case


@mutates(WIDGETS, case="is_beside_another")
def marks(widget: Any) -> None:
    """Counts how often it has been called for an object."""
    spec = widget["spec"]
    spec["marks"] = spec.get("marks", 0) + 1


@mutates(WIDGETS)
def is_beside_another(widget: Any) -> None:
    widget["spec"]["size"] = "seven"


@mutates(WIDGETS, case="adds_a_wrong_item")
def adds_an_item(widget: Any) -> None:
    widget["spec"].setdefault("items", []).append({"name": "sound"})


@mutates(WIDGETS)
def adds_a_wrong_item(widget: Any) -> None:
    widget["spec"].setdefault("items", []).append({})


@mutates(WIDGETS, reinvoke=True)
def breaks_it_when_it_is_called_again(widget: Any) -> None:
    spec = widget["spec"]
    spec["marks"] = spec.get("marks", 0) + 1
    if spec["marks"] == 2:
        spec["size"] = 100


@mutates(WIDGETS, case="breaks_it_when_it_is_called_again")
def follows(widget: Any) -> None:
    widget["spec"]["most"] = 9


# ---- a client's mistake beside a change


@mutates(WIDGETS)
def sets_another_field(widget: Any) -> None:
    widget["spec"]["marks"] = 1
