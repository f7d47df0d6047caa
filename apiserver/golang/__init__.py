"""The rules of Go's standard library that clients of Kubernetes can see."""
