"""Writes Markdown about commands, from their parsers."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator
from typing import Final

from apiserver.cli.server_options import CONNECTION_FLAGS, add_server_options

_WIDTH: Final = 110
_FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*(=[\w./:-]*\w)?")
_CONNECTION_ANCHOR: Final = CONNECTION_FLAGS.lower().replace(" ", "-")


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


def connection_flags() -> Iterator[str]:
    """Yields the lines about the flags that all commands share which call a running server."""
    parser = argparse.ArgumentParser(add_help=False)
    add_server_options(parser)
    yield f"## {CONNECTION_FLAGS}\n"
    yield "Commands that connect to a running server accept these flags.\n"
    yield "| flag | meaning |\n|---|---|"
    for each in parser._actions:
        yield f"| {_names(parser, each)} | {_help(parser, each)} |"
    yield ""


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"```text\n{parser.format_usage().strip().removeprefix('Usage: ')}\n```\n"
    yield from _paragraphs(parser.description or "")
    for group in parser._action_groups:
        rows = [(_names(parser, each), _help(parser, each)) for each in group._group_actions]
        if group.title == CONNECTION_FLAGS:
            yield f"The command accepts the [{CONNECTION_FLAGS.lower()}](#{_CONNECTION_ANCHOR}).\n"
        elif rows:
            assert group.title is not None
            title = group.title.lower()
            yield f"| {title if ' ' in title else title.removesuffix('s')} | meaning |\n|---|---|"
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


def marked_up(text: str) -> str:
    """Returns the help of a flag as Markdown, with the names of flags as code."""
    parts = text.split("`")  # Markdown keeps every backslash in code
    parts[::2] = [_FLAG.sub(r"`\g<0>`", each.replace("*", "\\*").replace("<", "&lt;")) for each in parts[::2]]
    return "`".join(parts)


def _escaped(text: str) -> str:
    return marked_up(text.replace("|", "\\|"))


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
