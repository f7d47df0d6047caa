"""Access: who makes a request (`authn`), and whether they may (`authz`).

The two know nothing of each other; what passes between them is a `meta.vocabulary.UserInfo`.
"""
