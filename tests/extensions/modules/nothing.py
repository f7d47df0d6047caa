"""Extensions whose one function does nothing: inline, and in a worker process."""

from __future__ import annotations

from typing import Any

from apiserver.extensions import Extension

inline = Extension("inline")
process = Extension("process")


@inline.mutate("configmaps", inline=True)
@process.mutate("configmaps")
def does_nothing(config_map: Any) -> None:
    pass
