"""How often Python looks for garbage: seldom, and never among what stays for ever.

Its own habits cost a server that has loaded many modules a quarter of its time: each look goes through everything.
Only what refers to itself in a circle waits for a look; the rest is freed at once.
"""

import gc

YOUNG_OBJECTS = 50_000
OLDER_ROUNDS = 20
OLDEST_ROUNDS = 50


def disable_gc_during_startup() -> None:
    """Look for no garbage while the server is loaded: what is made then stays, and looking takes time."""
    gc.disable()


def freeze_startup_objects() -> None:
    """Take everything that is there now for permanent, and look less often from here on."""
    if gc.isenabled():
        gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, OLDER_ROUNDS, OLDEST_ROUNDS)
    gc.enable()
