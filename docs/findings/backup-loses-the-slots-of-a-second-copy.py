"""Host slots that a backup has filled are nobody's: the tree has kept the copy that it had (see the page)."""

from bare import Bare, verdict

bare = Bare("FULL", "SWA")
bare.insert([1, 2, 3, 4])
bare.prefetch([1, 2, 3, 4, 5, 6], 4)  # the window of tokens 3 to 6 is on the host now, FULL of 1 to 4 is not
node = bare.match([1, 2, 3, 4])
value, transfers = bare.core.build_backup_spec(node)
assert value.numel(), "FULL is to be backed up"
copied = [part for parts in transfers.values() for part in parts if node in (part.nodes_to_load or [node])]
again = [part.device_indices.numel() for part in copied]
if not again:
    verdict(False, "the backup leaves out what the host has already")
bare.backup(node)
last = bare.host - 1
held = bare.core.node_by_id(node).component_data[bare.types["SWA"]].host_value.tolist()
verdict(last not in held, f"the backup filled SWA host slots {last - again[0] + 1} to {last}; the tree has {held}")
