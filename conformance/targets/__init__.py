"""Things that can be checked: anything that answers the operations of the protocol and tells events."""
