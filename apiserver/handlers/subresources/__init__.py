"""Subresources that speak a kind of their own: a view of the object (scale), or an order (binding, eviction,
token). What wants to be connected to a node is told that there is none.
"""
