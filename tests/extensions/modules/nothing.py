"""Extensions whose one function does nothing: inline, inline and validating, and in a worker process."""

from __future__ import annotations

from typing import Any, Final

from apiserver.extensions import Extension

SEEN: Final = "widgets.seen.example.com"

inline = Extension("inline")
validating = Extension("validating")
process = Extension("process")


@inline.mutate("configmaps", SEEN, inline=True)
@process.mutate("configmaps", SEEN)
def does_nothing(created: Any) -> None:
    pass


@validating.validate("configmaps", SEEN, inline=True)
def objects_to_nothing(created: Any) -> None:
    pass
