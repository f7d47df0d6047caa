"""kubectl apply in both forms, from one to the other and back, and what else people do to objects.

Rows F05-F17, F25, L03-L08. The oldest and the newest kubectl apply by default, and the newest does the rest;
the others' turn comes with the long tests.
"""
