"""Stateful suites: a target's public operations as rules for Hypothesis, faults among them."""
