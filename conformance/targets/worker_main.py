"""Serves a target of this package over the worker protocol: `python -m pinproof.conformance.targets.worker_main impl`.

Whatever else is written to stdout lands on stderr.
"""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO

import msgspec

from ..errors import ConformanceError
from .base import Answer, Configuration, Problem, Target, refused


def serve(target: Target, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer one request a line until they end."""
    encode = msgspec.json.Encoder().encode
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for line in requests:
        if not line.strip():
            continue
        try:
            request = decode(line)
        except msgspec.DecodeError as error:
            reply: Any = refused("ArgumentError", f"not a JSON object: {error}")
        else:
            reply = _batch(target, request) if request.get("op") == "batch" else answer(target, request)
        answers.write(encode(reply) + b"\n")
        answers.flush()


def _batch(target: Target, request: dict[str, Any]) -> dict[str, Any]:
    replies = [answer(target, each) for each in request.get("requests", ()) if isinstance(each, dict)]
    return {"id": request.get("id"), "ok": True, "answers": replies}


def answer(target: Target, request: dict[str, Any]) -> Answer:
    """The answer to one request."""
    args = {name: value for name, value in request.items() if name not in ("id", "op")}
    name = request.get("op")
    if name == "configure":
        reply = _configure(target, args)
    elif isinstance(name, str):
        reply = target.op(name, **args)
    else:
        reply = refused("ArgumentError", "op: there is none")
    reply.id = request.get("id")
    return reply


def _configure(target: Target, args: dict[str, Any]) -> Answer:
    try:
        reply = target.configure(msgspec.convert(args, Configuration))
    except (msgspec.ValidationError, ConformanceError) as error:
        return Answer(False, None, Problem("ArgumentError", str(error)))
    if reply.ok:
        reply.result = msgspec.to_builtins(target.capabilities)
    return reply


def main() -> None:
    """Serve the target named on the command line."""
    from ..registry import open_target

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(open_target(sys.argv[1] if len(sys.argv) > 1 else "impl"), sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
