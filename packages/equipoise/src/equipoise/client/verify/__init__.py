"""`equipoise verify`: an exported round, checked without the service that wrote it."""
