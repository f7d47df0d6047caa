"""Serves the console: web pages on which people see and change what the server has.

    console       answers requests for /console/: pages, sessions, watches over one WebSocket
    static_files  the files of the pages, with the headers that bound what they may do
    joined_modules
                  joins the modules of the first view into one file
    logins        who is logged in: what codes, cookies and tokens of sessions hold, and when they end
    login_codes, session_endpoint
                  the endpoints that give out codes, and sessions for codes, tokens and cookies
    revocations   notes in the store which codes are used, and which sessions have ended
    oidc_logins   logins at the OIDC issuer
    own_pages     tells requests of these pages from those of others
    json_bodies   reads and sends small documents, before anybody is authenticated
    watches       many watches over one WebSocket
    playground    evaluates CEL expressions against objects that are sent
    who_can       tells whom RBAC allows a request
    query_bodies  reads what clients of these two ask

The pages themselves are plain ES modules, which need no build; see pages/README.md.

What it guarantees: the pages have no special rights. Everything they show and change goes through the
API, with a token that the page holds in memory; what a user may not do, the page cannot do for them. The API
reads no cookies. The Content-Security-Policy of the pages allows no inline script, nothing of another
origin, and no frames around them. Texts of objects are only ever set as text.

A server with a console that nobody visits pays one comparison a request for it: this package is imported, and
the files are read, when the first request for them comes. From then on the files stay in memory, compressed,
as anybody may ask for them; browsers keep them, too, and ask whether they are still current.

Left out: authorization. Static files are the same for everybody, sessions give only what a user has already,
and each watch is authorized as a request.
"""
