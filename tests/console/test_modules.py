"""The modules of the pages that compute, run in a browser against what the server and the libraries say."""

from __future__ import annotations

import random
import string
from typing import Any, Final

import pytest
import yaml

from apiserver.meta.table import duration
from apiserver.wire.yaml import dump
from tests.support.chromium import Visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CASES: Final = 300


async def run(visit: Visit, module: str, body: str, cases: Any) -> Any:
    """Runs the body of a function of each case `c`, with what a module exports as `m`."""
    await visit.page.goto(f"{visit.server.url}/console/")
    script = (
        f"async (cases) => {{ const m = await import('./{module}'); return cases.map((c) => {{ {body} }}); }}"
    )
    return await visit.page.evaluate(script, cases)


async def test_durations_are_those_of_tables(visit: Visit) -> None:
    seconds = [*range(-3, 200), *(random.Random(1).randrange(10**9) for _ in range(2_000))]
    shown = await run(visit, "format.js", "return m.duration(c * 1000);", seconds)
    assert shown == [duration(each) for each in seconds]


def random_value(draw: random.Random, depth: int = 0) -> Any:
    keys = [
        "a",
        "name",
        "app.kubernetes.io/name",
        "1",
        "true",
        "it's",
        "a: b",
        "#",
        "-",
        "",
        "ключ",
        "~",
        '"',
    ]
    texts = [
        "",
        "x",
        "1",
        "null",
        "two\nlines\n",
        "  indented\ntext",
        "a: b",
        "- c",
        "# d",
        "'",
        '"',
        "\t",
        "| x",
    ]
    match draw.randrange(6 if depth < 4 else 3):
        case 0:
            return draw.choice(texts)
        case 1:
            return draw.choice([0, -1.5, True, False, None, 10**12])
        case 2:
            return "".join(draw.choices(string.printable, k=draw.randrange(120)))
        case 3:
            return [random_value(draw, depth + 1) for _ in range(draw.randrange(4))]
        case _:
            return {key: random_value(draw, depth + 1) for key in draw.sample(keys, draw.randrange(5))}


def keys_by_line(text: str) -> dict[int, list[str | int]]:
    """The path of the last key that begins in each line, by PyYAML."""
    found: dict[int, list[str | int]] = {}

    def walk(node: yaml.Node, path: list[str | int]) -> None:
        if isinstance(node, yaml.MappingNode) and not node.flow_style:
            for key, value in node.value:
                found[key.start_mark.line] = [*path, key.value]
                walk(value, [*path, key.value])
        elif isinstance(node, yaml.SequenceNode) and not node.flow_style:
            for at, value in enumerate(node.value):
                walk(value, [*path, at])

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert root is not None
    walk(root, [])
    return found


async def test_lines_of_yaml_are_where_a_parser_says(visit: Visit) -> None:
    draw = random.Random(2)
    texts = [dump({"root": random_value(draw)}).decode() for _ in range(CASES)]
    scanned = await run(visit, "yaml_lines.js", "return m.scan(c).map(({path, key}) => [key, path]);", texts)
    for text, lines in zip(texts, scanned, strict=True):
        assert {at: path for at, (key, path) in enumerate(lines) if key} == keys_by_line(text), text


async def test_a_difference_makes_one_text_of_the_other(visit: Visit) -> None:
    draw = random.Random(3)
    pairs = [[draw.choices("abcd", k=draw.randrange(30)) for _ in range(2)] for _ in range(CASES)]
    found = await run(visit, "line_diff.js", "return m.diffLines(c[0], c[1]);", pairs)
    for (before, after), lines in zip(pairs, found, strict=True):
        assert [line["text"] for line in lines if line["kind"] != "added"] == before
        assert [line["text"] for line in lines if line["kind"] != "removed"] == after
        assert all(line["kind"] == "same" for line in lines) == (before == after)
        same = sum(line["kind"] == "same" for line in lines)
        assert same == longest_common(before, after)


def longest_common(a: list[str], b: list[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = 0
        for at, y in enumerate(b, 1):
            before, row[at] = row[at], before + 1 if x == y else max(row[at], row[at - 1])
    return row[-1]


OBJECT: Final[dict[str, Any]] = {
    "metadata": {"labels": {"app": "web", "a.b/c": "1"}},
    "spec": {
        "ports": [{"port": 80, "name": "http"}, {"port": 443, "protocol": "TCP", "name": "tls"}],
        "args": ["-v", "-x"],
        "selector": {"a": "1"},
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
FIELDS: Final = {
    "f:metadata": {"f:labels": {".": {}, "f:a.b/c": {}}},
    "f:spec": {
        "f:ports": {
            ".": {},
            'k:{"port":443,"protocol":"TCP"}': {".": {}, "f:name": {}},
            'k:{"port":9}': {"f:name": {}},
        },
        "f:args": {'v:"-x"': {}},
        "f:selector": {},
        "f:gone": {},
    },
}
OWNED: Final = {
    ("metadata", "labels", "a.b/c"): ["one"],
    ("metadata", "labels"): ["one"],
    # A child of what it owns, and that nobody else does.
    ("metadata", "labels", "app"): ["one"],
    ("spec", "ports", 1, "name"): ["one"],
    ("spec", "ports", 0, "name"): ["one"],
    ("spec", "args", 1): ["one"],
    ("spec", "args", 0): [],
    ("spec", "selector", "a"): ["one"],
    ("status", "conditions", 0, "status"): ["two"],
    ("kind",): [],
}


async def test_owners_are_those_of_managed_fields(visit: Visit) -> None:
    managed = [
        {"manager": "one", "operation": "Apply", "fieldsV1": FIELDS},
        {
            "manager": "two",
            "operation": "Update",
            "subresource": "status",
            "fieldsV1": {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {"f:status": {}}}}},
        },
    ]
    document = {**OBJECT, "metadata": {**OBJECT["metadata"], "managedFields": managed}}
    cases = [[document, list(path)] for path in OWNED]
    body = "return new m.Owners(c[0]).of(c[1]).map(({manager}) => manager);"
    assert await run(visit, "managed_fields.js", body, cases) == list(OWNED.values())


PATHS: Final = {
    ".spec.args": '["-v","-x"]',
    "spec.ports[*].port": "80,443",
    "{.spec.ports[1].name}": "tls",
    ".metadata.labels['a.b/c']": "1",
    '.status.conditions[?(@.type=="Ready")].status': "True",
    ".status.conditions[?(@.type==Gone)].status": "",
    ".nothing.here": "",
    ".spec.constructor": "",
    "$.spec.args[0]": "-v",
}


async def test_json_paths_find_what_kubectl_finds(visit: Visit) -> None:
    cases = [[path, OBJECT] for path in PATHS]
    assert await run(visit, "json_path.js", "return m.shown(m.compile(c[0])(c[1]));", cases) == list(
        PATHS.values()
    )


@pytest.mark.parametrize("text", [".a[", ".a..b", ".a[?(@.x)]", ".a b", "[", ".a[1:2]"])
async def test_json_paths_that_are_none(visit: Visit, text: str) -> None:
    body = "try { m.compile(c); return 'compiled'; } catch (error) { return error.name; }"
    assert await run(visit, "json_path.js", body, [text]) == ["SyntaxError"]


async def test_metrics_are_read(visit: Visit) -> None:
    def text(fast: int, slow: int) -> str:
        return (
            f'm_bucket{{verb="GET",le="0.1"}} {fast}\nm_bucket{{verb="GET",le="1"}} {fast + slow}\n'
            f'm_bucket{{verb="GET",le="+Inf"}} {fast + slow}\nm_bucket{{verb="WATCH",le="+Inf"}} 1000\n'
            '# HELP x y\nwith{quote="a\\"b,}",other="2"} 3e2\nplain 4\n'
        )

    body = """
    const [now, before] = c.map(m.parse);
    const share = (q) => m.quantile(q, now, before, "m", ({verb}) => verb !== "WATCH");
    const other = now.get("with")[0].labels.other;
    return [share(0.5), share(0.95), m.total(now, "with"), m.total(now, "none"), other];
    """
    # 90 of 100 took up to 0.1 s: half of all up to 5/9 of that.
    expected = [pytest.approx(0.1 * 50 / 90), pytest.approx(0.1 + 0.9 * 5 / 10), 300, 0, "2"]
    assert await run(visit, "metrics_text.js", body, [[text(100, 20), text(10, 10)]]) == [expected]


ORDERED: Final = {
    "durations": ["5s", "90s", "2m", "2m5s", "10m", "2h", "47h", "3d", "2y"],
    "quantities": ["100m", "1", "2", "1k", "1Ki", "10Mi", "2Gi", "1Ti"],
    "numbers": [1, 2, 10],
    "names": ["web-1", "web-9", "web-10"],
    "fractions": ["0/1", "1/1", "10/10"],
}


@pytest.mark.parametrize("cells", ORDERED.values(), ids=ORDERED)
async def test_cells_are_ordered_by_what_they_mean(visit: Visit, cells: list[Any]) -> None:
    mixed = sorted(cells, key=str, reverse=True)
    assert await run(visit, "rows.js", "return c.sort(m.compared);", [mixed]) == [cells]


async def test_an_object_that_is_deleted_while_the_server_is_busy_has_no_error(visit: Visit) -> None:
    path = "/api/v1/namespaces/default/configmaps/live"
    stored = {"metadata": {"name": "live", "resourceVersion": "1"}}
    answers = [(200, stored), (503, {"kind": "Status", "code": 503}), (404, {"kind": "Status", "code": 404})]

    async def answer(route: Any) -> None:
        status, body = answers.pop(0)
        await route.fulfill(status=status, json=body)

    await visit.page.goto(f"{visit.server.url}/console/")
    await visit.page.route(f"**{path}", answer)
    script = """async () => {
      const { LiveObject } = await import("./live_object.js");
      const type = { group: "", version: "v1", resource: "configmaps", isNamespaced: true, verbs: ["get"] };
      const live = new LiveObject(type, "default", "live");
      const until = (test) => new Promise((done) => {
        const look = () => (test() ? done() : setTimeout(look, 10));
        look();
      });
      await until(() => live.value.value);
      await live.load();
      const busy = live.error.value?.code;
      await until(() => live.isDeleted.value);
      return [busy, live.error.value];
    }"""
    assert await visit.page.evaluate(script) == [503, None]


async def test_servers_do_not_keep_the_page_waiting_for_ever(visit: Visit) -> None:
    """Nor make it ask without end: what it is told may come from a server of somebody else's API."""
    asked: list[Any] = [None, 0, 1, 2.5, -5, 10**7, 1e300, "1", "soon", [], {}, True]
    statuses = [{"details": {"retryAfterSeconds": each}} for each in asked]
    waits = await run(visit, "retries.js", "return m.askedWaitMs(c);", [{}, None, *statuses])
    assert waits == [0, 0, 0, 0, 1_000, 2_500, 0, 60_000, 60_000, 1_000, 0, 0, 0, 1_000]
