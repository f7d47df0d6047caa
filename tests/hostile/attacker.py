"""`python -m tests.hostile.attacker SITE ATTACK NUMBER`: one attacking process.

It attacks from the first line of its input to the end of its input, and then prints how often each status
came.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import sys
from typing import Final

import uvloop

from tests.hostile.attack import Attacker
from tests.hostile.attacks import ATTACKS
from tests.hostile.site import Site

# Attackers come from other machines. Here they share two cores with the server; if they had the same right to
# them, the figures would be those of the scheduler.
NICENESS: Final = 10


async def _attack(attacker: Attacker, name: str) -> None:
    running = asyncio.create_task(ATTACKS[name].run(attacker))
    await asyncio.to_thread(sys.stdin.read)
    running.cancel()
    await asyncio.wait([running])
    if not running.cancelled() and (error := running.exception()):
        raise error


def main() -> None:
    site, name, number = Site.of_argument(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    os.nice(NICENESS)
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    # uvloop logs each connection that the server closes while it is not read.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
    attacker = Attacker(site, number)
    print("ready", flush=True)
    sys.stdin.readline()
    gc.disable()
    uvloop.run(_attack(attacker, name))
    print(json.dumps(attacker.answers), flush=True)
    os._exit(0)  # closing thousands of connections one by one takes seconds


if __name__ == "__main__":
    main()
