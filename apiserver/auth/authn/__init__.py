"""Authentication: identifies the caller. Each method is a module of its own; a chain tries one after another.

The first authenticator that identifies the caller wins. A wrong token is 401, never anonymous. Rows O01, O02.

    chain                 the order: certificates, then bearer tokens, then nobody in particular
    client_cert, peer_certificates, request_header
                          certificates, of clients and of front proxies
    bearer_tokens         all who may know a token: token_file, service_account, bootstrap_tokens, and others
                          by token_cache
    authentication_configuration
                          which issuers there are, and where callers may be anonymous
    configured_issuers    these issuers, which may be replaced while the server runs
    identity_provider, json_web_keys
                          the keys of an issuer, and what they have signed
    jwt_authenticators, claim_mapping, claim_expressions
                          from a token to its claims, and from these to a user
    impersonation         as whom somebody wants to be treated
    websocket_protocols   tokens in the handshake of a WebSocket

Nothing here calls another server: what is needed of HTTP arrives as a function.
"""
