"""The handlers of subresources that have a kind of their own, or connect to a node.

A scale is a view of its object; a binding, an eviction and a token request are orders that are carried out.
Requests for logs, terminals, ports and proxies are refused: there is no node to connect to.
"""
