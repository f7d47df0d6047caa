"""The flags of the console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apiserver.cli.flag import flags_of, option
from apiserver.cli.flag_values import SWITCH


@dataclass(frozen=True, slots=True, repr=False)
class ConsoleOptions:
    """The options of the console."""

    # None: it is served unless the store is etcd.
    console: bool | None = option(
        None,
        SWITCH,
        "If true, the server serves its console, a web page, at /console/.",
        default="true without --etcd-servers",
    )
    console_read_only: bool = option(
        False,
        SWITCH,
        "If true, the console does not offer to change anything. The flag does not take rights from users: "
        "what their credentials allow, they can still do with other clients.",
    )


FLAGS: Final = flags_of(ConsoleOptions)
