"""The multi-turn chat that the benchmarks run: the same on both sides, from a seed. Standard library only, since
SGLang's interpreter runs it too.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator

SYSTEM_PROMPTS = 10
Request = tuple["array[int]", "array[int]"]
"""What a request asks with, and the same with its answer: what is matched, what is inserted."""


def chat(conversations: int = 300, page: int = 1, seed: int = 0, code: str = "I") -> list[Request]:
    """Requests in order of arrival; whole pages only.

    Conversations start with one of ten system prompts of 1,000 to 3,000 tokens and go on for 2 to 7 turns of 100 to
    600 tokens asked and 100 to 900 answered, interleaved at random. With 300 of them the mean prompt has 4.3 thousand
    tokens.

    Args:
        code: the type code of the arrays of tokens.
    """
    return [(_whole(prompt, page, code), _whole(whole, page, code)) for prompt, whole in _turns(conversations, seed)]


def _turns(conversations: int, seed: int) -> Iterator[tuple[array[int], array[int]]]:
    dice = random.Random(seed)
    systems = [_text(dice, dice.randint(1000, 3000)) for _ in range(SYSTEM_PROMPTS)]
    running = [(dice.choice(systems)[:], dice.randint(2, 7)) for _ in range(conversations)]
    while running:
        at = dice.randrange(len(running))
        so_far, turns = running[at]
        so_far += _text(dice, dice.randint(100, 600))
        prompt = so_far[:]
        so_far += _text(dice, dice.randint(100, 900))
        yield prompt, so_far[:]
        if turns == 1:
            running[at] = running[-1]
            running.pop()
        else:
            running[at] = so_far, turns - 1


def _text(dice: random.Random, tokens: int) -> array[int]:
    return array("I", [word & 0x1FFFF for word in array("I", dice.randbytes(4 * tokens))])


def _whole(tokens: array[int], page: int, code: str) -> array[int]:
    whole = tokens[: len(tokens) - len(tokens) % page]
    return whole if code == "I" else array(code, whole)
