"""The command line: one module a verb. `main.py` is the entry point, `report.py` says how results are shown."""
