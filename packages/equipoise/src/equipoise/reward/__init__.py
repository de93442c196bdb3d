"""What each party is to receive, and how its posterior is made to be worth just that."""
