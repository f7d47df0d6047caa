"""Rules of Go's standard library that clients of Kubernetes can observe.

Kubernetes is written in Go, so its API accepts the URLs, IP addresses, regular expressions and durations that
Go's packages accept, and its error messages quote values as Go prints them. The modules implement these
rules, and do not depend on this server.
"""
