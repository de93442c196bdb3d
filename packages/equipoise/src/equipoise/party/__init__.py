"""The party's side: the only room whose code ever sees rows. Nothing on the mediator's side may import it."""
