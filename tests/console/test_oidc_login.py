"""How people log in to the page at an OIDC issuer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import pytest
from aiohttp import web

from tests.server.test_console_oidc import SHORT_S, LoginProvider, issuer_flags
from tests.support.api import Api
from tests.support.chromium import Browser, Visit
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

LIST: Final = "#/list/core/v1/configmaps?ns=default"


class ProviderOfAlice(LoginProvider):
    """A provider whose only user logs in without being asked, or with an error. told: of the ID token."""

    told: Mapping[str, Any] = {}
    error = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/authorize":
            return await super().handle(request)
        asked = request.query
        self.challenge = asked["code_challenge"]
        answer = {"error": self.error} if self.error else {"code": self.code(sub="alice", **self.told)}
        location = f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}"
        return web.Response(status=302, headers={"Location": location})


async def test_a_login_at_the_issuer_leads_back_to_the_view(browser: Browser, tmp_path: Path) -> None:
    with (
        ProviderOfAlice(tmp_path / "provider") as provider,
        ServerProcess(tmp_path / "data", *issuer_flags(provider)) as server,
        Api(server) as api,
    ):
        until(lambda: api.get("/console/config").ok()["oidc"], bool, "the issuer is found")
        async with Visit(browser, server) as visit:
            button = visit.page.get_by_role("button", name="Log in with the identity provider")
            logged_in = visit.page.locator("header").get_by_text(f"{provider.issuer}#alice")
            provider.error = "access_denied"
            await visit.show(LIST)
            await button.click()
            await visit.page.get_by_role("dialog").get_by_text("access_denied").wait_for()

            # A token that ends soon, so that the page gets another one after it is loaded again.
            provider.error, provider.told = "", {"exp": int(time.time()) + SHORT_S, "refreshed": {}}
            await button.click()
            await logged_in.wait_for()
            assert visit.page.url == f"{visit.url}{LIST}"
            await visit.page.reload()
            await logged_in.wait_for()
            assert [each["grant_type"] for each in provider.asked] == ["authorization_code", "refresh_token"]
            assert visit.faults == []
            assert {urlsplit(url).path for url in visit.foreign} == {"/authorize"}
