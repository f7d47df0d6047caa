"""How soon a visitor of the console sees something. `make bench ARGS=console`."""

from __future__ import annotations

import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Final

import pytest

from benchmarks.report import Result
from benchmarks.workloads import Settings, server
from tests.support.api import Api
from tests.support.chromium import Browser, Visit, chromium
from tests.support.server_process import ServerProcess

# From the navigation until all types are painted, in a browser that runs, without anything in its cache.
FIRST_VIEW_MS_MAX: Final = 300
VISITS: Final = 15
# The last type of the list, and what the server's own health says, which is a page without anything else.
SIGN: Final = "volumeattributesclasses"
BARE_SIGN: Final = "ok"
# Returns the milliseconds since the navigation began when a text is on the screen.
_PAINTED: Final = """(text) => new Promise((done) => {
  const look = () => requestAnimationFrame(() => {
    if (document.body?.textContent.includes(text)) setTimeout(() => done(performance.now()));
    else look();
  });
  look();
})"""


async def console(settings: Settings) -> AsyncIterator[Result]:
    try:
        with server(settings, "--controllers=*") as (process, _), closing(Api(process)) as api:
            async with chromium() as browser:
                # They alternate, as the machine is not equally fast at all times.
                times = [
                    (await _first_view_ms(browser, process, api), await _bare_ms(browser, process))
                    for _ in range(settings.at_most(VISITS))
                ]
    except pytest.skip.Exception as missing:
        print(f"the console is not measured: {missing}", file=sys.stderr)
        return
    ours, bare = zip(*times, strict=True)
    yield Result(
        "first view of the console, p50",
        "ms",
        statistics.median(ours),
        target=FIRST_VIEW_MS_MAX,
        is_bound=True,
        note=f"best {min(ours):.0f} ms; a page of two letters: p50 {statistics.median(bare):.0f} ms",
    )


async def _first_view_ms(browser: Browser, process: ServerProcess, api: Api) -> float:
    """Returns how long a visit takes that the command `apiserver console` begins."""
    code = api.post("/console/login-codes", {}).ok()["code"]
    async with Visit(browser, process) as visit:
        await visit.page.goto(f"{visit.url}#code={code}", wait_until="commit")
        return float(await visit.page.evaluate(_PAINTED, SIGN))


async def _bare_ms(browser: Browser, process: ServerProcess) -> float:
    async with Visit(browser, process) as visit:
        await visit.page.goto(f"{process.url}/livez", wait_until="commit")
        return float(await visit.page.evaluate(_PAINTED, BARE_SIGN))
