"""What SGLang's tree cores do otherwise than the protocol text, release by release, and why it is permitted.

Nothing here weakens a safety property: slots that are freed, overwritten or read too early are judged as ever, and so
is every count, by the locks that these releases do take. Seen by running the releases; the same in both cores.
"""

from __future__ import annotations

from .dialect import Difference

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "backup-locks-like-a-request",
        "Under write_through a backup takes a request's lock of the node that it was asked for: the path, the whole "
        "window, the state; and no host lock. The text locks the path and the copies that it reads, on both tiers.",
        "Wider than the danger on the device, for the time of one copy. On the host the mark keeps duplicates back, "
        "and a node with a device copy is no host leaf; if an auxiliary host copy goes, that is judged.",
    ),
    Difference(
        "write-back-backup-waits",
        "Under write_back a backup carries the mark, takes no lock, and is waited for at once. The text host-locks "
        "what it writes and lets time pass.",
        "Nothing runs between the submission and the ack, so there is nobody to keep away.",
    ),
    Difference(
        "insert-backs-up-under-write-back",
        "An insert over a node with a host copy backs up the window that is not there yet, under write_back too, lets "
        "time pass, and locks it like a request. The text backs up under write_back when the device needs room.",
        "Earlier than needed, and locked for the time of the copy.",
        since="0.5.20",
        until="0.5.22",
        habits={"insert_backs_up": True},
    ),
    Difference(
        "anchor-alone-is-marked",
        "A backup marks the node that it was asked for. The text marks what it writes of FULL.",
        "The mark guards FULL host slots, and only that node's are written.",
        until="0.5.19",
    ),
    Difference(
        "whole-backup-is-marked",
        "A backup marks every node that it copies anything of. The text marks those of FULL.",
        "A marked node is only kept from counting as a duplicate for a while.",
        since="0.5.20",
        habits={"marks_all": True},
    ),
    Difference(
        "tombstones-are-skipped",
        "A lock of the window goes on until it has covered a window of resident tokens: past evicted nodes, and so "
        "beyond the window. The text ends it at the window.",
        "Wider than the danger by nodes that the request may read.",
        until="0.5.19",
    ),
    Difference(
        "tombstones-are-counted",
        "A lock counts on every node of the path, the window and the state, resident or not. The text locks copies.",
        "A count on an evicted node keeps nobody from anything; what arrives under it is locked from then on.",
        since="0.5.20",
        habits={"tombstones": True},
    ),
    Difference(
        "host-lock-of-everything",
        "Load-backs, prefetches and storage writes host-lock FULL on the node, the window and the state. The text "
        "locks what each is going to read.",
        "Wider than the danger, as long as the operation lasts; it refuses no request anything.",
    ),
    Difference(
        "load-back-locks-anew",
        "The commit of a load-back takes the device locks anew, by what is resident then, and keeps all its host locks "
        "until the ack. The text adds what it brings, and gives back what it does not read.",
        "No eviction runs between the two.",
    ),
    Difference(
        "window-given-back-with-the-state",
        "Giving a window back early gives back all of it, the node's own part and the MAMBA lock too. The text keeps "
        "the node's part and the state.",
        "The request reads neither again: it has its own state, and its window has moved on.",
    ),
    Difference(
        "prefetch-below-a-copy-on-its-way",
        "A prefetch may start at a node whose host copy has not arrived. The text waits for it.",
        "The anchor is where the pages will hang, and nobody reads it; in these releases a backup does not fail.",
    ),
    Difference(
        "marked-nodes-are-no-duplicates",
        "A mark takes the node off the set of duplicates, and its ack looks at every marked node again. The text "
        "leaves nodes alone of which only auxiliary copies are backed up.",
        "A duplicate that is not reclaimed for the time of a copy costs nothing but host room.",
    ),
    Difference(
        "prefetch-refills-full",
        "Under write_through a prefetch that meets a node with FULL on the device alone gives it a host copy.",
        "The pages were read from storage for these tokens, and the node had none.",
        since="0.5.22",
        habits={"refills_full": True},
    ),
    Difference(
        "full-slots-replaced",
        "Attaching a window over a node that has lost it may exchange the node's FULL device slots for the request's.",
        "The bytes are the same, and an exchange under a lock or a copy is judged by the slots that it frees.",
    ),
    Difference(
        "stale-duplicates",
        "The set of duplicates may hold nodes that are none any more; they are not shown.",
        "Whoever takes from the set looks again.",
    ),
)
