"""Proofs of the protocol: unbounded with z3 (symbolic.py, obligations.py), exhaustive on small trees with torch (batched.py)."""
