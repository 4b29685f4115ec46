"""Request traces in the format that the Mooncake paper published: one JSON object a line, with `input_length`,
`output_length` and `hash_ids`, one id for each 512 tokens of the input. Equal ids, equal tokens. Standard library only.
"""

from __future__ import annotations

import json
import random
from array import array
from pathlib import Path
from typing import Any

BLOCK = 512
Request = tuple["array[int]", "array[int]"]


def requests(path: str, page: int, limit: int = 0, code: str = "I") -> list[Request]:
    """The requests of a trace as tokens: what is asked, and the same with an answer that nobody else has.

    Args:
        limit: only so many, 0 for all.
        code: the type code of the arrays of tokens.
    """
    found = []
    answers = 1 << 30
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            told = json.loads(line)
            tokens = array(code)
            for block in told["hash_ids"]:
                tokens.extend(array(code, range(block * BLOCK, (block + 1) * BLOCK)))
            del tokens[told["input_length"] :]
            prompt = tokens[: len(tokens) - len(tokens) % page]
            tokens.extend(array(code, range(answers, answers + told["output_length"])))
            answers += told["output_length"]
            found.append((prompt, tokens[: len(tokens) - len(tokens) % page]))
            if len(found) == limit:
                break
    return [request for request in found if len(request[0])]


def imitate(path: Path, count: int, seed: int = 0) -> None:
    """Write a trace of the same shape, where the published one is not at hand: conversations that come back with all
    that was said before, one shared first block, about 12 thousand tokens a request, some very long.
    """
    dice = random.Random(seed)
    fresh = 1
    open_: list[list[int]] = []
    rows: list[dict[str, Any]] = []
    for number in range(count):
        ids = open_.pop(dice.randrange(max(0, len(open_) - 400), len(open_))) if open_ and dice.random() < 0.45 else [0]
        for _ in range(1 + min(200, int(dice.lognormvariate(2.4, 0.9)))):
            ids.append(fresh)
            fresh += 1
        length = len(ids) * BLOCK - dice.randrange(BLOCK)
        answer = 1 + min(1500, int(dice.lognormvariate(5.5, 0.9)))
        rows.append({"timestamp": number * 300, "input_length": length, "output_length": answer, "hash_ids": ids[:]})
        if len(ids) < 220:
            open_.append(ids)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
