"""Extensions whose one function does nothing: inline, inline and validating, and in a worker process."""

from __future__ import annotations

from typing import Any

from apiserver.extensions import Extension

inline = Extension("inline")
validating = Extension("validating")
process = Extension("process")


@inline.mutate("configmaps", inline=True)
@process.mutate("configmaps")
def does_nothing(config_map: Any) -> None:
    pass


@validating.validate("configmaps", inline=True)
def objects_to_nothing(config_map: Any) -> None:
    pass
