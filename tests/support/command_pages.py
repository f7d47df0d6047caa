"""Writes Markdown about commands, from their parsers."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator
from typing import Final

_WIDTH: Final = 110


def command_page(name: str, summary: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields the lines about a command and its subcommands: usage, description, arguments and flags."""
    yield f"## apiserver {name}\n"
    if subcommands := _subcommands(parser):
        yield f"{summary}\n"
        for each, subparser in subcommands.items():
            yield f"### apiserver {name} {each}\n"
            yield from _described(subparser)
    else:
        yield from _described(parser)


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"```text\n{parser.format_usage().strip().removeprefix('Usage: ')}\n```\n"
    yield from _paragraphs(parser.description or "")
    for group in parser._action_groups:
        rows = [(_names(parser, each), _help(parser, each)) for each in group._group_actions]
        if rows:
            assert group.title is not None
            yield f"| {group.title.lower().removesuffix('s')} | meaning |\n|---|---|"
            yield from (f"| {names} | {meaning} |" for names, meaning in rows)
            yield ""


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of a description. Those that are indented are examples."""
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if paragraph.startswith(" "):
            yield f"```text\n{textwrap.dedent(paragraph)}\n```\n"
        else:
            yield f"{textwrap.fill(_escaped(' '.join(paragraph.split())), _WIDTH, break_on_hyphens=False)}\n"


def _names(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return f"`{parser._get_formatter()._format_action_invocation(action)}`".replace("|", "\\|")


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return _escaped(parser._get_formatter()._expand_help(action)) if action.help else ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
