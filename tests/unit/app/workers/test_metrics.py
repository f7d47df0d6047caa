"""The metrics of several workers as those of one server."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.app.workers.metrics import cumulative, merge, parse_exposition, render_exposition, without_gone


def text(name: str, kind: str, *samples: str) -> bytes:
    return "".join(
        f"{line}\n" for line in (f"# HELP {name} Words.", f"# TYPE {name} {kind}", *samples)
    ).encode()


LINE_ENDS: Final = {"\u2028": 2, "\r": 1, "\x0b": 1}

CASES: Final = {
    "counters are added up": (
        [text("a_total", "counter", 'a_total{x="1"} 1'), text("a_total", "counter", 'a_total{x="1"} 2')],
        text("a_total", "counter", 'a_total{x="1"} 3'),
    ),
    "labels with what may end a line elsewhere": (
        [
            text("a_total", "counter", f'a_total{{x="a{end}b"}} 1')
            for end in ("\u2028", "\u2028", "\r", "\x0b")
        ],
        text("a_total", "counter", *(f'a_total{{x="a{end}b"}} {n}' for end, n in LINE_ENDS.items())),
    ),
    "each set of labels for itself, whoever has it": (
        [text("a_total", "counter", 'a_total{x="1"} 1'), text("a_total", "counter", 'a_total{x="2"} 2')],
        text("a_total", "counter", 'a_total{x="1"} 1', 'a_total{x="2"} 2'),
    ),
    "labels may hold spaces, braces and quotes": (
        [text("a_total", "counter", 'a_total{x="b c\\"} 1"} 1')] * 2,
        text("a_total", "counter", 'a_total{x="b c\\"} 1"} 2'),
    ),
    "histograms are added up, bucket by bucket": (
        [
            text("h", "histogram", 'h_bucket{le="1.0"} 1', 'h_bucket{le="+Inf"} 2', "h_count 2"),
            text("h", "histogram", 'h_bucket{le="1.0"} 3', 'h_bucket{le="+Inf"} 3', "h_count 3"),
        ],
        text("h", "histogram", 'h_bucket{le="1.0"} 4', 'h_bucket{le="+Inf"} 5', "h_count 5"),
    ),
    "states of which each has a part are added up": (
        [text("apiserver_longrunning_requests", "gauge", "apiserver_longrunning_requests 2")] * 2,
        text("apiserver_longrunning_requests", "gauge", "apiserver_longrunning_requests 4"),
    ),
    "of gauges of extensions, the largest is shown": (
        [text("shop_open", "gauge", "shop_open 7"), text("shop_open", "gauge", "shop_open 6.5")],
        text("shop_open", "gauge", "shop_open 7"),
    ),
    "what the system counts for all of them is not": (
        [
            text("process_network_receive_bytes_total", "counter", "process_network_receive_bytes_total 70"),
            text("process_network_receive_bytes_total", "counter", "process_network_receive_bytes_total 80"),
        ],
        text("process_network_receive_bytes_total", "counter", "process_network_receive_bytes_total 80"),
    ),
    "objects that all have are not": (
        [
            text("apiserver_storage_objects", "gauge", 'apiserver_storage_objects{resource="pods"} 5'),
            text("apiserver_storage_objects", "gauge", 'apiserver_storage_objects{resource="pods"} 6'),
        ],
        text("apiserver_storage_objects", "gauge", 'apiserver_storage_objects{resource="pods"} 6'),
    ),
    "of revisions the one that lags most is shown": (
        [
            text(name := "apiserver_watch_cache_resource_version", "gauge", f"{name} 7"),
            text(name, "gauge", f"{name} 5"),
        ],
        text(name, "gauge", f"{name} 5"),
    ),
    "a family that only one has": (
        [b"", text("b", "gauge", "b 1.5"), text("c", "gauge")],
        text("b", "gauge", "b 1.5") + text("c", "gauge"),
    ),
}


@pytest.mark.parametrize(("texts", "expected"), CASES.values(), ids=CASES)
def test_expositions_are_merged(texts: list[bytes], expected: bytes) -> None:
    assert render_exposition(merge(map(parse_exposition, texts))) == expected


def test_counters_and_histograms_outlive_their_worker() -> None:
    """What it did, not what it had."""
    kept = text("a_total", "counter", "a_total 1") + text("h", "histogram", "h_count 1")
    kept += text("s", "summary", "s_sum 0.5", "s_count 1")
    assert render_exposition(cumulative(parse_exposition(kept + text("g", "gauge", "g 1")))) == kept


def test_what_is_kept_of_departed_workers_goes_with_its_resource() -> None:
    kept = (*(f'a_total{{group="g",resource="{name}"}} 1' for name in ("", "other", "pods")), "a_total 1")
    departed = text("a_total", "counter", *kept, 'a_total{group="g",resource="gone"} 1')
    live = text(name := "apiserver_storage_objects", "gauge", f'{name}{{resource="pods.g"}} 0')
    families = parse_exposition(departed)
    assert render_exposition(without_gone(families, [parse_exposition(live)])) == text(
        "a_total", "counter", *kept
    )
    assert without_gone(families, [{}]) == families


def test_sources_are_not_changed() -> None:
    """They are used again for the next scrape."""
    sources = [parse_exposition(text("a_total", "counter", "a_total 1")) for _ in range(2)]
    assert render_exposition(merge(sources)) == render_exposition(merge(sources))
