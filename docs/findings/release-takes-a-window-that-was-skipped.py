"""A request's window is freed while its lock is held, because another gave its own back early (see the page)."""

from bare import Bare, verdict

bare = Bare("FULL", "SWA")
top = bare.insert([1, 2])
middle = bare.insert([1, 2, 3, 4], cached=2)
lower = bare.insert([1, 2, 3, 4, 5, 6], cached=4)
for node in (top, middle, lower):
    bare.backup(node)
bare.evict("SWA", 3)  # of the top and the middle node
bare.insert([1, 2])  # computed anew: the top node has a window again
first = bare.core.inc_lock_ref(lower).to_dec_params()  # passes over the middle node, which has none
bare.insert([1, 2, 3, 4], cached=2)  # the middle node has one again
bare.core.inc_lock_ref(middle)  # a second request reads it
if hasattr(first, "node_id"):
    result = bare.core.dec_swa_lock_only(lower, first)
else:
    result = bare.core.dec_swa_lock_only(lower, first.swa_uuid_for_lock, first.skip_lock_node_ids)
bare._drain(result, {}, "SWA")
freed = bare.evict("SWA", 9)
verdict({3, 4} <= set(freed), f"under a request's lock of the window of tokens 3 and 4, those of {freed} were freed")
