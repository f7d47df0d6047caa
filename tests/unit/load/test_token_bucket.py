"""Token buckets: a burst, and then so many per second."""

from __future__ import annotations

from apiserver.load.token_bucket import TokenBucket


def test_tokens_that_are_taken_only_if_they_are_there() -> None:
    now = 0.0
    bucket = TokenBucket(10, 3, lambda: now)
    assert [bucket.take() for _ in range(5)] == [True, True, True, False, False]
    now = 0.1
    assert [bucket.take() for _ in range(2)] == [True, False]
    now = 10.0
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


def test_tokens_that_are_waited_for() -> None:
    now = 0.0
    bucket = TokenBucket(10, 3, lambda: now)
    assert [round(bucket.reserve(), 3) for _ in range(5)] == [0, 0, 0, 0.1, 0.2]
    now = 10.0
    assert [round(bucket.reserve(), 3) for _ in range(4)] == [0, 0, 0, 0.1]
