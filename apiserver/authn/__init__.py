"""Who asks: each proof of identity in a module of its own, and the chain that tries one after another.

The first that knows the caller wins. One that is shown a credential and does not accept it ends the
chain: a wrong token is 401, never anonymous. Rows O01, O02.
"""
