"""Target values of the parties, and the making of posteriors that are worth just these."""
