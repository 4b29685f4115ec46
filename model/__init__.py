"""The protocol text and the reference machine. Standard library only.

Start with `protocol.py` (what happens), then `properties.py` (what must hold); `vocabulary.py` names the state both
speak about, and `machine.py` runs the text on a tree of any size.
"""
