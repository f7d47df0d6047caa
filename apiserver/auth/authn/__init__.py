"""Authentication: a chain of authenticators identifies the user of a request; each method has a module.

The first authenticator that identifies the caller wins. An invalid token is 401, never anonymous (rows O01,
O02).

    chain                 the order: certificates, then bearer tokens, then the anonymous user
    client_cert, peer_certificates, certificate_verifier, request_header
                          certificates, of clients and of front proxies
    bearer_tokens         asks all authenticators of tokens: token_file, service_account, bootstrap_tokens,
                          and others by token_cache
    authentication_configuration
                          the configured issuers, and the paths where callers may be anonymous
    configured_issuers    these issuers, which may be replaced while the server runs
    service_account_keys  the keys of service account tokens
    identity_provider, discovery_documents, json_web_keys
                          the keys of an issuer, and the signatures of tokens
    jwt_authenticators, claim_mapping, claim_expressions
                          turn a token into claims, and these into a user
    impersonation         the user that a caller wants to impersonate
    extension_tokens      the tokens of the server's own extensions
    console_tokens, sealed_texts
                          the tokens of console sessions, which hold what they mean, encrypted
    websocket_protocols   tokens in the handshake of a WebSocket

Nothing here calls another server: functions for HTTP arrive as arguments.

`certificate_verifier`, `service_account_keys` and `json_web_keys` import `cryptography`. An idle server does
without it: the first request that has credentials, or reads or writes resources, imports the former two in a
thread (`endpoints.middleware`), and the last is for servers with configured issuers.
"""
