"""The recorded conversations, and the program that replays them.

A wheel has them in an archive beside this module, 135 kB instead of 2 MB in 619 files; a checkout and an
editable installation have them in `tests/conformance/`.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from apiserver.meta.vocabulary import Document

ARCHIVE: Final = Path(__file__).with_name("conversations.tar.xz")
CHECKOUT: Final = Path(__file__).parents[3] / "tests" / "conformance"
RECORDED_FROM: Final = "v1.36.2"
_REPLAYER: Final = "replay.py"
_FOLDER: Final = "scenarios/"
_SUFFIX: Final = ".yaml"


class MissingConversations(LookupError):
    """This installation has no recorded conversations."""

    def __init__(self) -> None:
        super().__init__(
            f"this installation lacks the recorded conversations ({ARCHIVE}):"
            " it was built without the folder tests/conformance"
        )


class Conversation(NamedTuple):
    """A recorded conversation. name: its area and its own name, as `watch/bookmarks`."""

    name: str
    document: Document

    @property
    def has_webhooks(self) -> bool:
        return any("webhook" in step for step in self.document["steps"])

    @property
    def has_second_impersonator(self) -> bool:
        """Whether the second user impersonates somebody, which nobody can do in that user's name."""
        return any(
            step.get("as") == "alice"
            and any(name.startswith("Impersonate-") for name in step.get("headers") or ())
            for step in self.document["steps"]
        )

    def missing_feature(self, features: frozenset[str]) -> str:
        """Returns what the conversation needs that is not in `features`, in words; empty if nothing."""
        for name in _listed(self.document.get("requires")):
            if name not in features:
                return f"needs --features {name}"
        for name in _listed(self.document.get("without")):
            if name in features:
                return f"needs a server without {name}"
        return ""


def area_of(name: str) -> str:
    return name.partition("/")[0]


class Recordings:
    """The files of the conversations, and of the program that replays them. Raises MissingConversations."""

    def __init__(self) -> None:
        self._files = _archived(ARCHIVE) if ARCHIVE.exists() else files_in(CHECKOUT)
        if _REPLAYER not in self._files:
            raise MissingConversations

    @property
    def names(self) -> list[str]:
        """The names of all conversations, in order."""
        return sorted(
            name.removeprefix(_FOLDER).removesuffix(_SUFFIX) for name in self._files if name != _REPLAYER
        )

    def replayer(self) -> Any:
        """Returns the module that replays conversations."""
        module = ModuleType("replay")
        code = compile(self._files[_REPLAYER], _REPLAYER, "exec")
        exec(code, vars(module))  # noqa: S102  # it is part of this program, if not of this package
        return module

    def conversations(self, names: list[str], replayer: Any) -> Iterator[Conversation]:
        """Yields conversations by name. replayer: the module."""
        import yaml

        for name in names:
            text = self._files[f"{_FOLDER}{name}{_SUFFIX}"]
            yield Conversation(name, yaml.load(text, Loader=replayer.YLoader))  # noqa: S506  # a safe loader


def files_in(folder: Path) -> Mapping[str, bytes]:
    """Returns the files of a folder that the archive has, by name; none if there is no such folder."""
    paths = [folder / _REPLAYER, *sorted((folder / _FOLDER).glob(f"*/*{_SUFFIX}"))]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths if path.exists()}


def _archived(archive: Path) -> Mapping[str, bytes]:
    with tarfile.open(archive) as opened:
        return {
            member.name: file.read() for member in opened if (file := opened.extractfile(member)) is not None
        }


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())
