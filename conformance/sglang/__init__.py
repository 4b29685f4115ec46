"""SGLang's tree cores under test: one environment a release, one controller for all of them.

Only `environment` is imported by pinproof itself. Every other file of this folder runs inside the environment it
makes (``python worker.py`` with this folder as ``sys.path[0]``), so these files import one another by plain name and
use nothing but the standard library and what the environment holds.
"""
