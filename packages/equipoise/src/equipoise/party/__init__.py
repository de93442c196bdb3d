"""The party's side: the only place that ever sees rows. Nothing on the mediator's side may import it."""
