"""Models at home: a party's reward combined with its own rows, on its own machine. Nothing made here may leave it.

Rows enter without noise, so this package belongs to the party's front end, like the command line. Nothing on the
mediator's side may import it.
"""
