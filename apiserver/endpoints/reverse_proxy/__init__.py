"""Forwards requests to other servers: those behind Services, pods and nodes, and kubelets.

    target      the destination of a request, and how the client sees it
    headers     which headers go to a backend, and which come back
    exact_headers        sends header values that are not UTF-8 unchanged
    answer_heads         refuses responses whose heads can be parsed in two ways
    links       redirects and links that lead back through the proxy
    html        finds the links in HTML, while it passes through
    backends    the HTTP client, and connections for upgrades
    forwarder   forwards one request and its response, within a limit
    upgrades    connections that change their protocol with a response 101
    translation, spdy    shells and ports over WebSocket, for kubelets that speak SPDY
    in_process  the kubelets of simulated nodes
    errors      the errors of forwarding

Bodies pass through in both directions as fast as the other side reads them: no more than a few pieces of 64
KiB are in memory for each direction. A forwarded request may last as long as its client likes, so it takes no
slot among the requests in flight, but one of `forwarder.FORWARDED_MAX`. When the client disconnects, the
request to the backend ends.

A backend never gets credentials or impersonation headers with which it could act as the client. The server
never connects to addresses in `--proxy-deny-cidrs`, whatever name resolves to them.

Source of the rules: k8s.io/apimachinery, pkg/util/proxy (UpgradeAwareHandler and Transport), and Go's
net/http/httputil.
"""
