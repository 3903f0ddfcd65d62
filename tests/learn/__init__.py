"""What becomes of a policy when our side fails: four ways to treat it, trained and compared (`make learn`).

The environment is codebook with a shortcut that works (one lookup and a guess), and every further lookup may break
the session, so what breaks is what should be learned. Each seed has one warm start that all ways begin from; they
draw the same rows in the same order, and are judged on held-out rows, where nothing breaks.

Runs of one seed differ by the way alone, but are not repeatable to the bit: which episodes of a group meet an outage
follows the order in which they arrive at the server.
"""
