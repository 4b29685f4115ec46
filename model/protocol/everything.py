"""All at once."""

from __future__ import annotations

from ..algebra import ROOT, same, some_holder
from ..transaction import Transaction
from ..vocabulary import busy
from .common import forget
from .setting import Setting, action


@action()
def reset(t: Transaction, p: Setting) -> None:
    """The cache is emptied; refused while any operation is under way (SGLang #26009)."""
    t.require(~some_holder(busy), "no operation is under way", danger=some_holder(busy))
    forget(t, p, t.everywhere().where(lambda m: ~same(m, ROOT)))
