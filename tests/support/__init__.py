"""Shared support for tests: real servers, clients, and sample definitions."""
