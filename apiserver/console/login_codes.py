"""Answers requests for /console/login-codes: gives callers a code that logs a page in as them."""

from __future__ import annotations

from aiohttp import hdrs

from apiserver.auth.authn.chain import AuthenticationChain, Credentials
from apiserver.auth.authn.console_tokens import CertifiedUser
from apiserver.auth.authn.peer_certificates import PeerCertificates
from apiserver.auth.authn.request_header import RequestHeaderAuthenticator
from apiserver.auth.authn.token_file import bearer_token
from apiserver.console.json_bodies import send_json
from apiserver.console.logins import CODE_S, Login, Logins
from apiserver.console.own_pages import require_no_foreign_page
from apiserver.endpoints.api_call import ApiCall
from apiserver.meta.errors import Forbidden, MethodNotAllowed, Unauthorized


class LoginCodes:
    """The endpoint. Its callers need no right: they get nothing that they have not got."""

    def __init__(self, logins: Logins, chain: AuthenticationChain, certificates: PeerCertificates) -> None:
        self._logins, self._chain, self._certificates = logins, chain, certificates

    async def respond(self, call: ApiCall) -> None:
        """Answer a request, whose body is ignored. Raises ApiError."""
        if call.info.method != hdrs.METH_POST:
            raise MethodNotAllowed
        require_no_foreign_page(call)
        if call.impersonator is not None:
            raise Forbidden(
                "impersonated users cannot log in to the console: the page would hide who they are"
            )
        code = self._logins.code(self._login(call))
        await send_json(call, {"code": code, "expiresInSeconds": CODE_S}, status=201)

    def _login(self, call: ApiCall) -> Login:
        """Returns the login of the caller. Raises Unauthorized if it is anonymous, Forbidden, BadRequest."""
        certificate, headers = call.connection.certificate, call.request.headers
        authorization = headers.get(hdrs.AUTHORIZATION, "")
        if certificate is not None:
            credentials = Credentials(certificate, authorization, headers)
            authenticator = self._chain.certificate_authenticator(credentials)
            if isinstance(authenticator, RequestHeaderAuthenticator):
                raise Forbidden(
                    "users of a front proxy cannot log in to the console: the front proxy vouches for one "
                    "request, and a session would outlast it"
                )
            if authenticator is not None:
                transport = call.connection.transport
                if transport is None:
                    raise ConnectionResetError("the client is gone")
                authority = self._certificates.client_authority(transport.get_extra_info("ssl_object"))
                return self._logins.of_certificate(
                    CertifiedUser(call.user, authority), certificate.expires_at
                )
        token = bearer_token(authorization)
        if not token:
            raise Unauthorized
        return self._logins.of_token(token)
