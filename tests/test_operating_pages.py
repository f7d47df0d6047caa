"""Messages, alerts and metrics that the pages about operating name are those of the server."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

from apiserver.metrics.declarations import known_metrics

ROOT: Final = Path(__file__).parent.parent
OPERATING: Final = ROOT / "docs" / "operating"
TROUBLESHOOTING: Final = (OPERATING / "troubleshooting.md").read_text()
ALERTS: Final = (OPERATING / "alerts.md").read_text()
_, _, OF_CLIENTS = TROUBLESHOOTING.partition("## Messages of clients")
# The first cell of each row of a table of messages; other tables list paths.
_CELL: Final = re.compile(r"^\| `([^/`][^`]*)` \|", re.MULTILINE)
_PLACEHOLDER: Final = re.compile(r"%(?:\.\d+)?[a-z]")
_METRIC: Final = re.compile(
    r"`((?:apiserver|etcd|authentication|aggregator|pod_security|cardinality)_[a-z_]+)(…?)`"
)
# What a page says that the server logs.
_LOGGED: Final = re.compile(r"\blogs\s+`([^`]+)`")
MESSAGES: Final = _CELL.findall(TROUBLESHOOTING.removesuffix(OF_CLIENTS))
LOGGED: Final = [
    text for page in sorted(OPERATING.glob("*.md")) for text in _LOGGED.findall(page.read_text())
]
ROWS_MIN: Final = 20


def text_of(node: ast.AST) -> str | None:
    """Returns a text of the source, with `…` for each value that is put into it."""
    match node:
        case ast.Constant(value=str(text)):
            return _PLACEHOLDER.sub("…", text)
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
        case _:
            return None


@cache
def texts() -> frozenset[str]:
    """All texts of the server but docstrings."""

    def found() -> Iterator[str]:
        for folder in ("apiserver", "storage"):
            for path in (ROOT / folder).rglob("*.py"):
                nodes = list(ast.walk(ast.parse(path.read_text())))
                docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
                for node in nodes:
                    if id(node) not in docstrings and (text := text_of(node)):
                        yield text

    return frozenset(found())


@pytest.mark.parametrize("message", [*MESSAGES, *LOGGED])
def test_a_message_is_one_of_the_server(message: str) -> None:
    wanted = message.strip("…").strip()
    assert [text for text in texts() if wanted in text]


def test_a_message_that_no_server_has_is_found_out() -> None:
    assert not [text for text in texts() if "the data directory … is used by another server" in text]


def test_there_are_enough_messages_each_once() -> None:
    assert len(MESSAGES) >= ROWS_MIN
    assert len({*MESSAGES}) == len(MESSAGES)
    assert LOGGED
    assert len(_CELL.findall(OF_CLIENTS)) >= 3


def test_every_alert_names_its_section() -> None:
    """In which a reader finds what to do."""
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    alerts = {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}
    _, *sections = re.split(r"^## ", ALERTS, flags=re.MULTILINE)
    assert [section.partition("\n")[0] for section in sections] == list(alerts)
    for alert, section in zip(alerts, sections, strict=True):
        assert alerts[alert]["annotations"]["runbook_url"] == f"docs/operating/alerts.md#{alert.lower()}"
        assert re.findall(r"^\*\*(\w+)\.\*\* ", section, re.MULTILINE) == ["Meaning", "Confirm", "Act"], alert


@pytest.mark.parametrize("page", sorted(OPERATING.glob("*.md")), ids=lambda page: page.stem)
def test_metrics_exist(page: Path) -> None:
    known = known_metrics()
    missing = {
        name
        for name, rest in _METRIC.findall(page.read_text())
        if not (name in known or (rest and any(each.startswith(name) for each in known)))
    }
    assert missing == set()
