"""The window's host copy that storage is reading is freed, because a split drops its host lock (see the page)."""

from bare import Bare, verdict

bare = Bare("FULL", "SWA")
node = bare.insert([1, 2, 3, 4])
bare.backup(node)
bare.evict("FULL", 4)
bare.core.inc_host_lock_ref(node)  # a storage write reads FULL and SWA from here on
bare.match([1, 2])  # splits the node
freed = bare.evict_host("SWA", 2)
verdict(bool(freed), f"under a host lock of the node, SWA host slots {sorted(freed)} were freed")
