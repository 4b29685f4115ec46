"""Two load-backs that do not conflict: the second one is answered with nothing (see the page of this name)."""

from bare import Bare, verdict

bare = Bare("FULL", "SWA")
upper = bare.insert([1, 2, 3, 4])
lower = bare.insert([1, 2, 3, 4, 5, 6, 7, 8], cached=4)
for node in (upper, lower):
    bare.backup(node)
bare.evict("FULL", 8)
first = bare.load_back(lower)  # FULL of both nodes, SWA of the lower one: in flight
assert first == (8, ["SWA"]), first
try:
    second = bare.load_back(upper)  # SWA of the upper one: host-only, with a host lock of its own
except AssertionError as error:
    verdict(False, f"commit_load_back: AssertionError: {error}")
verdict(second == (0, []), f"the second load-back brings {second}")
