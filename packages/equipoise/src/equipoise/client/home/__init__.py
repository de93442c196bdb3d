"""At home: a party's reward and its own rows together, on its own machine. Nothing made here may leave it.

Rows enter without noise, so this room is the party's own front end like the command line: nothing on the mediator's
side may import it.
"""
