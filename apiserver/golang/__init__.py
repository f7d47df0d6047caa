"""The rules of Go's standard library that clients of Kubernetes can see.

Kubernetes is written in Go, so what its API accepts as a URL, an IP address, a regular expression or a
duration is what Go's packages accept, and its error messages quote values as Go prints them. The modules
here implement these rules, and know nothing of this server.
"""
