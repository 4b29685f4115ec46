"""A node on device that nobody locks cannot be evicted, after a load-back below it was called off (see the page)."""

from bare import Bare, verdict

bare = Bare("FULL", "SWA")
upper = bare.insert([1, 2])
lower = bare.insert([1, 2, 3], cached=2)
for node in (upper, lower):
    bare.backup(node)
bare.evict("FULL", 1)  # the lower node is on the host alone: the upper one is a leaf of the device
receipt = bare.core.inc_lock_ref(lower).to_dec_params()  # a load-back begins, finds no room, and is called off
bare.core.dec_lock_ref(lower, receipt)
freed = bare.evict("FULL", 2)
verdict(not freed, f"nothing is locked, 2 slots are on device, and eviction frees {sorted(freed)}")
