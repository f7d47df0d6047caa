"""Forwards requests to other servers: those behind Services, pods and nodes, and kubelets.

    target      where a request goes to, and what of it the client sees
    headers     which headers go to a backend, and which come back
    exact_headers        header values that are not UTF-8 are sent as they came
    answer_heads         answers are refused of whose heads others may see other headers
    links       redirects and links that lead back through the proxy
    html        finds the links in HTML, while it passes through
    backends    the HTTP client, and connections for upgrades
    forwarder   one request: to the backend, and its answer back; how many there may be
    upgrades    connections that speak another protocol from an answer 101 on
    translation, spdy    shells and ports over WebSocket, for kubelets that speak SPDY
    in_process  kubelets of nodes that only pretend to be machines
    errors      what can go wrong

Bodies pass through in both directions as fast as the other side takes them: of each direction no more is in
memory than a few pieces of 64 KiB. A forwarded request may last as long as its client likes, so it has no
slot among the requests in flight, but one of `forwarder.FORWARDED_MAX`. When the client goes, so does the
request to the backend.

A backend learns nothing by which it could act as the client: no credentials, no impersonation. Addresses in
`--proxy-deny-cidrs` are never connected to, whatever name leads there.

Source of the rules: k8s.io/apimachinery, pkg/util/proxy (UpgradeAwareHandler and Transport), and Go's
net/http/httputil.
"""
