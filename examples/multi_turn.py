"""Multi-turn chat on a tiny model, from a cache that is too small for it.

    python examples/multi_turn.py [dense|alternating|hybrid] [write_back|write_through]

Needs the extra `e2e` (transformers). Four conversations take turns; after each request the table says where its
prompt was found. All logits are compared with those of a run without a cache.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from tiered_generation import Server, uncached
from tiny_models import MODELS

TURNS, ANSWER = 4, 3


def main(arguments: Sequence[str]) -> int:
    """Chat. Returns how many requests had other logits than without a cache."""
    name, policy = [*arguments, "hybrid", "write_back"][:2] if len(arguments) != 1 else [arguments[0], "write_back"]
    model = MODELS[name]()
    host = 17 if policy == "write_back" else 26
    server = Server(model, 4, policy=policy, device_pages=17, host_pages=host)
    chats = [[*range(1, 13), *range(20 + 10 * c, 24 + 10 * c)] for c in range(4)]
    different = 0
    print(f"{name}, {policy}: {', '.join(server.shape.config['components'])}")
    print(f"{'chat':>4}  {'turn':>4}  {'prompt':>6}  {'found':>5}  {'loaded back':>11}  logits")
    for turn in range(TURNS):
        for number, chat in enumerate(chats):
            found = server.cache.match(chat[: (len(chat) - 1) // 4 * 4])
            request = server.start(chat)
            start = request.start
            done = server.finish(request, ANSWER)
            same = all(torch.equal(a, b) for a, b in zip(done.logits, uncached(model, chat, ANSWER), strict=True))
            different += not same
            loaded = max(0, start - found.device_tokens)
            print(
                f"{number:>4}  {turn:>4}  {len(chat):>6}  {start:>5}  {loaded:>11}  {'equal' if same else 'DIFFERENT'}"
            )
            chats[number] = [*done.tokens, 3 + turn, 5 + number, 7]
    return different


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
