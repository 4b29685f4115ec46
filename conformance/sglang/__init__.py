"""SGLang's tree cores under test: one environment a release, one controller for all of them.

Only `environment` is imported by pinproof itself. Every other file of this folder runs inside the environment it
makes (``python worker.py``), where pinproof is not installed: they import nothing but one another, the standard library
and what the environment holds.
"""
