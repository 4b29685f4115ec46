"""Faulty protocols with the wrong rule: the other policy's, a lookup's, or one that forbids too much."""

from __future__ import annotations

from . import faulty
from .algebra import Assign, Inherit, Var, above, held_by, one, path, some, someone
from .edits import HOLDER, NODE, Instead, With, Without, guard
from .faulty import Ack, Commit
from .mutant import BACK, BOTH, THROUGH, WITH_AUX, WITH_MAMBA, WITH_SWA, Mutant
from .vocabulary import (
    FULL,
    MAMBA,
    anchor,
    device_lock,
    held,
    host,
    host_lock,
    load_back_pending,
    reads,
    storage_reads,
    writes,
)

MUTANTS: tuple[Mutant, ...] = (
    # 7: policy-dependent protocol used under the other policy --------------------------------------------------------
    Mutant(
        "pins-under-every-policy",
        7,
        "SGLang #34519",
        "before #34519: every transfer pins its sources and asserts, also where no reclaim exists",
        "release.no-pins-under-write-through",
        (Instead("commit_load_back", Commit(pins="every transfer under every policy").__call__),),
        THROUGH,
    ),
    Mutant(
        "write-through-backup-locks-the-host",
        7,
        "SGLang #24585",
        "under write_through a backup locks its destination and leaves its source to the evictor",
        "safety.backup-source-is-locked",
        (Instead("begin_backup", faulty.backup_by_the_other_policy),),
        THROUGH,
    ),
    Mutant(
        "write-back-backup-marks-nodes",
        7,
        "SGLang #24585",
        "under write_back a backup marks nodes and locks them on the device",
        "release.no-marks-under-write-back",
        (Instead("begin_backup", faulty.backup_by_the_other_policy),),
        BACK,
    ),
    Mutant(
        "write-back-ack-unlocks-the-device",
        7,
        "bytedance-iaas/sglang #748",
        "under write_back an ack releases device locks that no backup ever took",
        "ack_backup.promise.took-device_lock.full",
        (Instead("ack_backup", faulty.ack_that_unlocks_the_device),),
        BACK,
    ),
    Mutant(
        "write-through-ack-refreshes-pinned-only",
        7,
        "SGLang #34519",
        "under write_through an ack refreshes only what was pinned: a prefetched node is never tracked",
        "tracking.settled-duplicates-are-tracked",
        (Instead("ack_load_back", Ack(refreshes_pinned=True).__call__),),
        THROUGH,
    ),
    Mutant(
        "mirror-reclaimed-above-a-backed-up-child",
        7,
        "SGLang #33862",
        "under write_through a duplicate goes as it does under write_back, whatever is backed up below it",
        "structure.host-residency-is-prefix-closed",
        (Without("reclaim_duplicate", guards=("nothing below is on the host",)),),
        THROUGH,
    ),
    # 8: lookup used as a reservation ---------------------------------------------------------------------------------
    Mutant(
        "prefetched-below-an-unbacked-parent",
        8,
        "SGLang #31902",
        "prefetched pages hang below a node that has lost, or never had, a host copy",
        "structure.host-residency-is-prefix-closed",
        (Without("insert_host", guards=("the parent is backed up",)),),
        THROUGH,
    ),
    Mutant(
        "prefetch-anchor-not-locked",
        8,
        "SGLang #31902",
        "a prefetch remembers its anchor without locking it",
        "safety.anchor-stays",
        (Without("begin_prefetch", assigns=("host_lock",)),),
    ),
    Mutant(
        "unbacked-parent-deleted-as-a-leaf",
        8,
        "SGLang #31902",
        "a node without a host copy is deleted although host-only nodes hang below it",
        "delete_leaf.promise.no-orphans",
        (Without("delete_leaf", guards=("it is a leaf",)),),
        BACK,
    ),
    Mutant(
        "sources-looked-up-twice",
        8,
        "vLLM #39702",
        "a load-back copies what its path has on the host now, not what it locked",
        "safety.auxiliary-source-is-host-locked",
        (Instead("commit_load_back", Commit(looked_up=True).__call__),),
        BOTH,
        WITH_AUX,
    ),
    Mutant(
        "storage-read-without-a-lock",
        8,
        "Mooncake #4153",
        "storage reads host slots on which it holds nothing",
        "safety.stored-source-stays",
        (Without("begin_storage_backup", assigns=("host_lock",)),),
    ),
    Mutant(
        "anchor-of-one-component",
        8,
        "SGLang #24869",
        "each component has an anchor of its own",
        "accounting.one-anchor-per-operation",
        (With("begin_load_back", lambda p, c: Assign(anchor, True, one(Var("boundary", "node")), HOLDER)),),
    ),
    Mutant(
        "recovery-replaces-locked-full",
        8,
        "SGLang #29352",
        "recovering an auxiliary copy frees the FULL slots of a node that others have locked",
        "attach_aux.*.promise.unused-device.full",
        (Instead("attach_aux", faulty.recovery_that_replaces_full),),
        BOTH,
        WITH_AUX,
    ),
    # 15: identity differs between tiers ------------------------------------------------------------------------------
    Mutant(
        "match-ignores-the-namespace",
        15,
        "SGLang #26747",
        "a request locks what another namespace has of its tokens",
        "safety.requests-stay-in-their-namespace",
        (Without("lock", guards=("the node is of the request's namespace",)),),
    ),
    Mutant(
        "storage-ignores-the-namespace",
        15,
        "SGLang #26747",
        "pages that were read for one namespace enter the tree below another's",
        "structure.children-inherit-their-namespace",
        (Without("insert_host", guards=("the parent is of its namespace",)),),
    ),
    Mutant(
        "split-forgets-the-namespace",
        15,
        "SGLang #26747",
        "the new prefix of a split node is of no namespace, or of any",
        "structure.children-inherit-their-namespace",
        (Without("split", guards=("both are of one namespace",)),),
    ),
    # 12: a safety fix that refuses too much --------------------------------------------------------------------------
    Mutant(
        "silent-refusal-at-a-foreign-pin",
        12,
        "SGLang #35931",
        "a load-back is turned down when any of its sources is pinned, needed or not",
        "commit_load_back.necessity.no-source-is-pinned-by-another-anchor",
        (Instead("commit_load_back", Commit(refuses=True).__call__),),
        BACK,
        WITH_AUX,
    ),
    Mutant(
        "nothing-loaded-although-there-was-something",
        12,
        "SGLang #35931",
        "a load-back is answered with nothing although host copies are there",
        "refuse_load_back.necessity.commit_load_back-is-impossible",
        (Without("refuse_load_back", guards=("FULL is on the device",)),),
    ),
    Mutant(
        "eviction-refuses-pinned-windows",
        12,
        "SGLang #36317",
        "an auxiliary host copy may not go because FULL is pinned",
        "evict_host_aux.*.necessity.not-pinned",
        (
            With(
                "evict_host_aux",
                lambda p, c: guard(
                    "require", "not pinned", ~someone(load_back_pending, NODE), held(NODE, reads[c], writes[c])
                ),
                first=True,
            ),
        ),
        BACK,
        WITH_AUX,
    ),
    Mutant(
        "reclaim-refuses-device-locks",
        12,
        "SGLang #33862",
        "a duplicate's host copy may not go because a request uses the device copy",
        "reclaim_duplicate.necessity.no-device-lock",
        (
            With(
                "reclaim_duplicate",
                lambda p, c: guard(
                    "require",
                    "no device lock",
                    ~someone(device_lock[FULL], NODE),
                    held(NODE, reads[FULL], writes[FULL], storage_reads, host_lock[FULL]),
                ),
                first=True,
            ),
        ),
        BACK,
    ),
    # 13: two correct fixes collide -----------------------------------------------------------------------------------
    Mutant(
        "split-migrates-host-lock-twice",
        13,
        "SGLang #38835",
        "two fixes both move the SWA host lock on a split; the second overwrites the prefix's with nothing",
        "safety.auxiliary-source-is-host-locked",
        (Without("split", inherits=("host_lock.swa",)),),
        BOTH,
        WITH_SWA,
    ),
    Mutant(
        "split-copies-state-locks",
        13,
        "SGLang #38835",
        "a migration made for SWA is applied to MAMBA, too: the prefix is locked on a state it has not",
        "safety.locked-slots-stay",
        (With("split", lambda p, c: Inherit(device_lock[MAMBA], NODE, Var("prefix", "node"))),),
        BOTH,
        WITH_MAMBA,
    ),
    # 14: the checker itself is wrong ---------------------------------------------------------------------------------
    Mutant(
        "sanity-check-demands-backed-up-parents",
        14,
        "SGLang #24585",
        "a sanity check asserts under write_back what only write_through keeps",
        "ack_backup.never.parents-are-backed-up",
        (
            With(
                "ack_backup",
                lambda p, c: guard(
                    "never",
                    "parents are backed up",
                    ~some(held_by(writes[FULL], HOLDER), lambda m: some(above(m), lambda k: ~host[FULL](k))),
                ),
                first=True,
            ),
        ),
        BACK,
    ),
    Mutant(
        "sanity-check-forbids-host-locks",
        14,
        "SGLang #39980",
        "a sanity check asserts that what is resident on the device is not locked on the host",
        "forward.never.no-host-lock-in-flight",
        (
            With(
                "forward",
                lambda p, c: guard(
                    "never", "no host lock in flight", ~some(path(NODE), lambda m: someone(host_lock[FULL], m))
                ),
                first=True,
            ),
        ),
    ),
)
