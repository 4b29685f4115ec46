"""Under write_back an insert asks for a backup, which the server does as under write_through: with a device lock."""

from bare import Bare, verdict

bare = Bare("FULL", "SWA")
upper = bare.insert([1, 2, 3, 4])
lower = bare.insert([1, 2, 3, 4, 5, 6, 7, 8], cached=4)
bare.backup(lower)
bare.evict("FULL", 4)
bare.backup(upper)
bare.evict("FULL", 4)
bare.core.inc_host_lock_ref(lower)  # a storage write reads it
bare.evict_host("SWA", 4)  # the window's host copy of the upper one goes, FULL's stays
bare.asked.clear()
bare.insert([1, 2, 3, 4])  # a request computes it again: FULL and the window are on the device
verdict("BackupKV" in bare.asked, f"under write_back an insert asked for {', '.join(bare.asked) or 'nothing'}")
