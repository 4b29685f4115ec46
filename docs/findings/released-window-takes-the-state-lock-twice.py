"""A request's state is freed while its lock is held, because another request gave one lock too many back."""

from bare import Bare, verdict

bare = Bare("FULL", "SWA", "MAMBA")
node = bare.insert([1, 2, 3, 4])
for each in (node, bare.insert([1, 2, 3, 4, 5], cached=4)):
    bare.backup(each)
first = bare.core.inc_lock_ref(node).to_dec_params()
bare.core.inc_lock_ref(node)  # a second request reads the same state, and goes on
if hasattr(first, "node_id"):
    result = bare.core.dec_swa_lock_only(node, first)
else:
    result = bare.core.dec_swa_lock_only(node, first.swa_uuid_for_lock, first.skip_lock_node_ids)
bare._drain(result, {}, "SWA")
bare.core.dec_lock_ref(node, first, True)
freed = bare.evict("MAMBA", 2)
verdict(2004 in freed, f"under a request's lock of state 2004, states {sorted(freed)} were freed")
