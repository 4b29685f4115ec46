"""Every action can be told: words, families, begins and ends keep up with the protocol text."""

from __future__ import annotations

import pytest
from pinproof.model.algebra import Assign
from pinproof.model.instance import instances
from pinproof.model.protocol import TEXT
from pinproof.model.vocabulary import PHASES
from pinproof.view.words import BEGINS, ENDS, FAMILY, LONG, sentence, shorten, split_name


@pytest.mark.parametrize("name", TEXT)
def test_every_action_has_words_and_a_family(name: str) -> None:
    args = {"component": "swa", "node": 5, "leaf": 6, "parent": 0, "prefix": 7, "top": 4, "holder": 8, "boundary": 4}
    told = sentence(name, args)
    assert told[0].isupper()
    assert "(" not in told
    assert name in FAMILY


def test_no_words_for_actions_that_are_none() -> None:
    assert FAMILY.keys() == TEXT.keys()
    assert BEGINS.keys() <= TEXT.keys()
    assert ENDS.keys() <= TEXT.keys()


def test_operations_begin_and_end_where_the_text_says() -> None:
    """A phase that starts for an idle holder is a begin; one that ends without another is an end."""
    for found in instances():
        for action in found.actions.values():
            phases = [s for s in action.steps if isinstance(s, Assign) and s.relation in PHASES]
            name = split_name(action.name)[0]
            begun, ended = [s for s in phases if s.value], [s for s in phases if not s.value]
            assert (name in BEGINS) == bool(begun and not ended), action.name
            assert (name in ENDS) == bool(ended and not begun), action.name


def test_what_is_unknown_is_told_as_it_came() -> None:
    assert sentence("no_such", {"node": 1}) == "no_such(node=1)"
    assert sentence("demote", {}) == "demote()"
    assert sentence("demote", {"node": 0}) == "The root gives up its device copies"


def test_long_strings_are_cut_and_say_so() -> None:
    assert shorten("x" * LONG) == "x" * LONG
    assert shorten("x" * 1_000_000) == "x" * LONG + "… (1,000,000 characters)"
