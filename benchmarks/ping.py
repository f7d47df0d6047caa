"""Requests /livez again and again until its input ends; then prints the longest wait in seconds.

python -m benchmarks.ping URL
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from benchmarks import load


async def main(url: str) -> None:
    stopped = False

    def next_request() -> bytes | None:
        return None if stopped else load.request("GET", "/livez/ping")

    pinging = asyncio.create_task(load.run(url, next_request, connections=1))
    await asyncio.sleep(0.2)
    print("pinging", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    stopped = True
    print(max((await pinging).delays_s))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
