"""kubectl apply in both forms, from one to the other and back, and what else people do to objects.

Rows F05-F17, F25, L03-L08. The newest kubectl does it in each run, and the oldest with the long tests.
"""
