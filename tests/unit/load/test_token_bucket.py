"""Token buckets: a burst, and then so many per second."""

from __future__ import annotations

from apiserver.load.token_bucket import KeyedTokenBuckets, TokenBucket


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


def test_tokens_that_are_given_back() -> None:
    bucket = TokenBucket(10, 2, lambda: 0.0)
    bucket.give_back()
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    bucket.give_back()
    assert [bucket.take() for _ in range(2)] == [True, False]


def test_each_key_has_a_bucket_among_a_bounded_number() -> None:
    now = 0.0
    buckets = KeyedTokenBuckets(1.0, 1, 100, lambda: now)
    assert [buckets.take("a"), buckets.take("a")] == [True, False]
    buckets.give_back("a")
    assert [buckets.take("a"), buckets.take("a")] == [True, False]
    for number in range(99):
        assert buckets.take(str(number))
    assert not buckets.take("a")
    for number in range(100):
        buckets.take(f"other {number}")
    assert buckets.take("a")
    assert not buckets.take("a")
    now = 1.0
    assert buckets.take("a")


def test_no_key_has_a_limit_where_no_buckets_are_kept() -> None:
    buckets = KeyedTokenBuckets(1.0, 1, 0, lambda: 0.0)
    assert [buckets.take("a"), buckets.take("a")] == [True, True]
