"""Caches of what is known of texts can be emptied."""

from __future__ import annotations

from apiserver.meta.text_caches import empty_text_caches, text_cache


def test_text_caches_are_emptied() -> None:
    worked_out = []

    @text_cache(100)
    def length(text: str) -> int:
        worked_out.append(text)
        return len(text)

    assert [length("a"), length("bb"), length("a")] == [1, 2, 1]
    empty_text_caches()
    assert length("a") == 1
    assert worked_out == ["a", "bb", "a"]
