"""A host copy that storage is reading is freed, because a split drops its host lock (see the page of this name)."""

from bare import Bare, verdict

bare = Bare("FULL")
node = bare.insert([1, 2, 3, 4])
host = bare.backup(node)
bare.core.inc_host_lock_ref(node)  # a storage write reads host slots 1 to 4 from here on
bare.match([1, 2])  # splits the node
freed = bare.evict_host("FULL", 2)  # the prefix is a duplicate: under write_back those go first
verdict(bool(set(freed) & set(host)), f"under a host lock of slots {host}, slots {sorted(freed)} were freed")
