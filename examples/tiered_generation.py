"""Greedy generation with a transformers model whose KV lives in a `TieredCache` between requests.

A request matches its prompt, loads back what is on the host, locks, waits for the bytes, and goes on from there with
a transformers `DynamicCache` that is made of them; what it has computed it hands over page by page, and unlocks.

    full attention           -> the component "full":  K and V of a page of tokens, a layer after the other
    sliding-window attention -> the component "swa":   the same
    Mamba                    -> the component "mamba": convolution and recurrent states after the last token of a node

Tokens are computed one at a time, with and without the cache: the same sums in the same order, so that logits can be
compared bit by bit. Batch of one, float32, CPU or GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from pinproof.impl import CacheConfig, Match, NothingToDo, OutOfDeviceSlots, Receipt, TieredCache
from transformers import DynamicCache

Layer = Any
"""A layer of a transformers cache; its classes share no useful type."""


def layers_of(cache: DynamicCache) -> list[Layer]:
    """The layers of a transformers cache."""
    return list(cache.layers)


def component_of(layer: Layer) -> str:
    """Which component a layer of a transformers cache belongs to."""
    if hasattr(layer, "recurrent_states"):
        return "mamba"
    return "swa" if getattr(layer, "is_sliding", False) else "full"


class Shape:
    """How the layers of a model are laid out in pages.

    Attributes:
        members: for each component, the indices of its layers.
        config: choices for `TieredCache` that follow from the model; pools share one shape, that of the largest.
    """

    def __init__(self, model: Any, page_size: int) -> None:
        self.page_size = page_size
        probe = DynamicCache(config=model.config)
        with torch.no_grad():
            model(input_ids=torch.zeros((1, 1), dtype=torch.long), cache=probe, use_cache=True)
        self.members: dict[str, list[int]] = {}
        sizes = []
        windows = [1]
        for index, layer in enumerate(layers_of(probe)):
            component = component_of(layer)
            self.members.setdefault(component, []).append(index)
            if component == "mamba":
                sizes.append(4 * (layer.conv_states[0].numel() + layer.recurrent_states[0].numel()))
            else:
                sizes.append(4 * 2 * page_size * layer.keys.numel())
            if component == "swa":
                windows.append(layer.sliding_window)
        self.layers = max(len(each) for each in self.members.values())
        self.layer_bytes = -(-max(sizes) // 8) * 8
        self.probe = layers_of(probe)
        self.config: dict[str, Any] = {
            "components": tuple(c for c in ("full", "swa", "mamba") if c in self.members),
            "page_size": page_size,
            "window": max(windows),
            "layers": self.layers,
            "layer_bytes": self.layer_bytes,
            "content": False,
        }

    def pack(self, parts: Sequence[Sequence[torch.Tensor]]) -> torch.Tensor:
        """A page `[layers, words]` of the tensors of each layer."""
        page = torch.zeros((self.layers, self.layer_bytes // 4), dtype=torch.float32)
        for row, tensors in zip(page, parts, strict=False):
            flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
            row[: flat.numel()] = flat
        return page.view(torch.int64)

    def tokens(self, pages: torch.Tensor, row: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V `[1, heads, tokens, size]` of one layer out of pages `[pages, layers, words]`."""
        heads, size = like.shape[1], like.shape[3]
        flat = pages[:, row].contiguous().view(torch.float32)[:, : 2 * self.page_size * heads * size]
        both = flat.view(len(pages), 2, heads, self.page_size, size)
        keys, values = both.permute(1, 2, 0, 3, 4).reshape(2, 1, heads, -1, size)
        return keys.contiguous(), values.contiguous()

    def state(self, page: torch.Tensor, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Convolution and recurrent state of one layer out of a page `[layers, words]`."""
        layer = self.probe[self.members["mamba"][row]]
        conv, recurrent = layer.conv_states[0], layer.recurrent_states[0]
        flat = page[row].contiguous().view(torch.float32)
        cut = conv.numel()
        return flat[:cut].view(conv.shape).clone(), flat[cut : cut + recurrent.numel()].view(recurrent.shape).clone()


class Work:
    """What one request computes: a transformers cache that goes on from `start` tokens, and copies of what is new."""

    def __init__(self, model: Any, shape: Shape, start: int, gather: Callable[[str], torch.Tensor]) -> None:
        self.model, self.shape, self.start = model, shape, start
        self.cache = DynamicCache(config=model.config)
        self.new: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        self.states: dict[int, torch.Tensor] = {}
        self.position = start
        if start:
            self._restore(gather)

    def _restore(self, gather: Callable[[str], torch.Tensor]) -> None:
        layers = layers_of(self.cache)
        for component, members in self.shape.members.items():
            pages = gather(component)
            for row, index in enumerate(members):
                layer = layers[index]
                if component == "mamba":
                    conv, recurrent = self.shape.state(pages[-1], row)
                    layer.update_conv_state(conv)
                    layer.update_recurrent_state(recurrent)
                    continue
                keys, values = self.shape.tokens(pages, row, self.shape.probe[index].keys)
                if component == "swa":
                    keep = min(self.start, layer.sliding_window - 1)
                    keys, values = keys[:, :, keys.shape[2] - keep :], values[:, :, values.shape[2] - keep :]
                layer.update(keys, values)
                if component == "swa":
                    layer.cumulative_length = self.start

    def step(self, token: int) -> torch.Tensor:
        """Compute one token; its logits `[vocabulary]`."""
        with torch.no_grad():
            found = self.model(
                input_ids=torch.tensor([[token]]),
                position_ids=torch.tensor([[self.position]]),
                cache=self.cache,
                use_cache=True,
            )
        self.position += 1
        for index, layer in enumerate(layers_of(self.cache)):
            if component_of(layer) != "mamba":
                told = self.new.setdefault(index, [])
                told.append((layer.keys[0, :, -1].clone(), layer.values[0, :, -1].clone()))
        if "mamba" in self.shape.members and self.position % self.shape.page_size == 0:
            layers = [layers_of(self.cache)[index] for index in self.shape.members["mamba"]]
            self.states[self.position] = self.shape.pack(
                [(layer.conv_states[0], layer.recurrent_states[0]) for layer in layers]
            )
        return torch.Tensor(found.logits[0, -1])

    def pages(self, component: str, first: int, count: int) -> torch.Tensor:
        """Pages that the request has computed: what `TieredCache.insert` asks for."""
        return torch.stack([self._page(component, first + n) for n in range(count)])

    def _page(self, component: str, page: int) -> torch.Tensor:
        size = self.shape.page_size
        if component == "mamba":
            return self.states[(page + 1) * size]
        low = page * size - self.start
        parts = []
        for index in self.shape.members[component]:
            told = self.new[index][low : low + size]
            parts.append([torch.stack([pair[side] for pair in told], dim=1) for side in (0, 1)])
        return self.shape.pack(parts)


@dataclass
class Request:
    """A request under way."""

    tokens: list[int]
    receipt: Receipt
    start: int
    logits: list[torch.Tensor] = field(default_factory=list)


class Server:
    """Serves requests from one model and one `TieredCache`.

    Args:
        choices: for `CacheConfig`, beyond those that follow from the model.
    """

    def __init__(self, model: Any, page_size: int = 4, recorder: Any = None, **choices: Any) -> None:
        self.model = model
        self.shape = Shape(model, page_size)
        self.cache = TieredCache(CacheConfig(**(self.shape.config | choices)), recorder=recorder)
        self.computed = 0

    def start(self, tokens: Sequence[int]) -> Request:
        """Match a prompt, start to load back what is on the host alone, and lock. At least one token is left to do."""
        whole = (len(tokens) - 1) // self.shape.page_size * self.shape.page_size
        found: Match = self.cache.match(tokens[:whole])
        node, start = found.device_node, found.device_tokens
        if found.host_tokens:
            try:
                self.cache.load_back(found.host_node)
                node, start = found.host_node, start + found.host_tokens
            except (NothingToDo, OutOfDeviceSlots):
                # Room was made, or could not be: whatever the device has now will do.
                found = self.cache.match(tokens[:whole])
                node, start = found.device_node, found.device_tokens
        return Request(list(tokens), self.cache.lock(node), start)

    def finish(self, request: Request, count: int) -> Request:
        """Wait for the bytes, compute the rest of the prompt and `count` tokens more, hand over, unlock."""
        self.cache.forward(request.receipt, wait=True)
        work = Work(
            self.model, self.shape, request.start, lambda component: self.cache.gather(request.receipt, component)
        )
        for token in request.tokens[request.start :]:
            logits = work.step(token)
        for _ in range(count):
            request.logits.append(logits)
            request.tokens.append(int(logits.argmax()))
            logits = work.step(request.tokens[-1])
        self.computed += work.position - request.start
        whole = work.position - work.position % self.shape.page_size
        with contextlib.suppress(OutOfDeviceSlots):
            self.cache.insert(request.tokens[:whole], after=request.receipt, content=work.pages)
        self.cache.unlock(request.receipt)
        return request


def uncached(model: Any, tokens: Sequence[int], count: int) -> list[torch.Tensor]:
    """The logits of `count` tokens after a prompt, computed from its first token on."""
    cache = DynamicCache(config=model.config)
    given, found = list(tokens), []
    with torch.no_grad():
        for position in range(len(tokens) + count - 1):
            told = model(
                input_ids=torch.tensor([[given[position]]]),
                position_ids=torch.tensor([[position]]),
                cache=cache,
                use_cache=True,
            )
            if position >= len(tokens) - 1:
                found.append(told.logits[0, -1])
                given.append(int(found[-1].argmax()))
    return found
