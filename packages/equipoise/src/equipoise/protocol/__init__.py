"""What a party and a service say to each other, and what either can check of it alone."""
