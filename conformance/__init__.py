"""Targets, checker, traces and suites that compare real caches with the protocol text."""
