"""A request's window is freed while its lock is held, because another gave back a lock that it never had there."""

from bare import Bare, verdict

bare = Bare("FULL", "SWA")
upper = bare.insert([1, 2, 3, 4])
lower = bare.insert([1, 2, 3, 4, 5, 6], cached=4)
for node in (upper, lower):
    bare.backup(node)
bare.evict("SWA", 1)  # the upper node's window
first = bare.core.inc_lock_ref(lower).to_dec_params()  # passes over the upper node, which has none
prefix = bare.match([1, 2])  # splits it
bare.insert([1, 2])  # a request that computes these tokens anew: the prefix has a window again
bare.core.inc_lock_ref(prefix)  # a second request reads it
bare.core.dec_lock_ref(lower, first)
freed = bare.evict("SWA", 9)
verdict({1, 2} <= set(freed), f"under a request's lock of the window of tokens 1 and 2, those of {freed} were freed")
