"""Proofs of the protocol: unbounded with z3, exhaustive on small trees with torch.

Unbounded: `prove.py` discharges what `obligations.py` asks, `counterexample.py` shows why a claim fails, `mutation.py`
tries faulty protocols, `recheck.py` asks cvc5 again, `spare.py` finds steps that nothing needs, `contracts.py` runs
CrossHair. Exhaustive: `explore.py` over `batched.py`.
"""
