"""Extensions whose functions review ConfigMaps: `process` in its worker, and `inline` on the event loop.

Both have the same functions. Each is about the ConfigMaps whose label `case` is its name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from apiserver.extensions import Denied, Extension

process = Extension("process", timeout_s=5)
inline = Extension("inline", timeout_s=5)
Function = Callable[..., Any]


def _about(extension: str, case: str) -> str:
    labels = "object.metadata.labels"
    return f"has({labels}) && {labels} == {{'in': '{extension}', 'case': '{case}'}}"


def mutates(**options: Any) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        for extension in (process, inline):
            extension.mutate(
                "configmaps",
                where=_about(extension.name, function.__name__),
                inline=extension is inline,
                **options,
            )(function)
        return function

    return add


def validates(**options: Any) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        for extension in (process, inline):
            extension.validate(
                "configmaps",
                where=_about(extension.name, function.__name__),
                inline=extension is inline,
                **options,
            )(function)
        return function

    return add


# ---- functions that mutate


@mutates()
def sets_a_field(config_map: Any) -> None:
    config_map["data"]["currency"] = "EUR"


@mutates()
def returns_another_object(config_map: Any) -> Any:
    return {**config_map, "data": {"other": "yes"}}


@mutates()
def changes_one_and_returns_another(config_map: Any) -> Any:
    config_map["data"]["lost"] = "yes"
    return {**config_map, "data": {"kept": "yes"}}


@mutates()
def changes_nothing(config_map: Any) -> None:
    pass


@mutates()
def refuses_after_a_change(config_map: Any) -> None:
    config_map["data"].clear()
    raise Denied("over budget", field="data.cost", reason="QuotaExceeded", code=422)


@mutates()
def fails_after_a_change(config_map: Any) -> None:
    config_map["data"].clear()
    raise KeyError("price")


@mutates(on_error="ignore")
def is_ignored(config_map: Any) -> None:
    config_map["data"].clear()
    raise KeyError("price")


@mutates(on_error="warn")
def is_warned_of(config_map: Any) -> None:
    config_map["data"].clear()
    raise KeyError("price")


@mutates(on_error="ignore")
def is_ignored_with_a_wrong_object(config_map: Any) -> None:
    config_map["data"] = 7


@mutates(on_error="ignore")
def is_ignored_with_a_cycle(config_map: Any) -> None:
    config_map["data"]["self"] = config_map


@mutates(on_error="ignore")
def is_ignored_when_it_exits(config_map: Any) -> None:
    config_map.clear()
    raise SystemExit


@mutates()
def returns_a_list(config_map: Any) -> Any:
    return [config_map]


@mutates()
def makes_a_wrong_type(config_map: Any) -> None:
    config_map["data"] = {"price": 7}


@mutates()
def makes_another_kind(config_map: Any) -> None:
    config_map["kind"] = "Secret"


@mutates()
def makes_a_set(config_map: Any) -> None:
    config_map["data"] = {"a", "b"}


@mutates()
def makes_a_cycle(config_map: Any) -> None:
    config_map["data"]["self"] = config_map


@mutates()
def makes_deep_lists(config_map: Any) -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    config_map["data"]["deep"] = deep


@mutates()
def adds_an_unknown_field(config_map: Any) -> None:
    config_map["unknown"] = {"a": 1}


@mutates()
def moves_it(config_map: Any) -> None:
    config_map["metadata"]["namespace"] = "kube-system"


@mutates(reinvoke=True)
def counts_its_calls(config_map: Any) -> None:
    config_map["data"]["calls"] = str(int(config_map["data"].get("calls", 0)) + 1)
    # What comes later is about it from now on.
    config_map["metadata"]["labels"]["case"] = "follows"


@mutates()
def follows(config_map: Any) -> None:
    config_map["data"]["followed"] = "yes"
    config_map["metadata"]["labels"]["case"] = "counts_its_calls"


@mutates(on={"create", "update"})
def takes_all(
    config_map: Any,
    old: Any,
    request: Any,
    user: Any,
    dry_run: Any,
    namespace_labels: Any,
    warn: Any,
    annotate: Any,
) -> None:
    warn(f"dry_run={dry_run}")
    annotate("seen-by", "takes-all")
    config_map["data"] = {
        "old": "" if old is None else old["metadata"]["name"],
        "operation": request.operation,
        "name": request.name,
        "user": user.name,
        "groups": ",".join(user.groups),
        "namespace": namespace_labels["kubernetes.io/metadata.name"],
        "options": request.options["kind"],
    }


# Dry runs are refused, as the functions could not leave out what they do beside.
@mutates(side_effects=True)
def has_side_effects(config_map: Any) -> None:
    config_map["data"]["counted"] = "yes"


@mutates(side_effects=True)
def leaves_out_side_effects(config_map: Any, dry_run: bool) -> None:
    config_map["data"]["counted"] = str(not dry_run)


@mutates(side_effects=True)
def asks_the_request(config_map: Any, request: Any) -> None:
    config_map["data"]["counted"] = str(not request.dry_run)


@mutates(side_effects=True, on_error="ignore")
def is_not_ignored(config_map: Any) -> None:
    config_map["data"]["counted"] = "yes"


# ---- functions that validate


@validates(side_effects=True)
def validates_with_side_effects(config_map: Any) -> None:
    pass


@validates()
def refuses(config_map: Any) -> None:
    raise Denied("over budget", field="data.cost")


@validates()
def refuses_without_a_reason(config_map: Any) -> None:
    raise Denied("")


@validates()
def changes_what_it_validates(config_map: Any, old: Any) -> None:
    config_map["data"]["lost"] = "yes"


@validates()
def makes_no_object_of_what_it_validates(config_map: Any) -> None:
    config_map["data"]["self"] = config_map
    config_map["metadata"] = {"a", "b"}


@validates()
def returns_false(config_map: Any) -> Any:
    return False


@validates(on_error="warn")
def fails_with_a_warning(config_map: Any, warn: Any) -> None:
    warn("lost")
    config_map["metadata"].clear()
    raise ValueError("no price")


# ---- functions that take too long inline

slow = Extension("slow")


@slow.mutate(
    "configmaps",
    inline=True,
    timeout_s=0.05,
    where="has(object.metadata.name) && object.metadata.name.startsWith('slow-')",
    on_error="ignore",
)
def takes_its_time(config_map: Any) -> None:
    config_map["data"] = {"pid": str(os.getpid())}
    time.sleep(0.1)


# ---- one function in a process, and one on the event loop, that validate the same objects

mixed = Extension("mixed", timeout_s=5)
INLINE_S = 0.2


@mixed.validate("configmaps", where="object.metadata.name == 'mixed'", inline=True)
def takes_time(config_map: Any) -> None:
    time.sleep(INLINE_S)


@mixed.validate("configmaps", where="object.metadata.name == 'mixed'")
def takes_none(config_map: Any) -> None:
    pass
