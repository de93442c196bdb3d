"""`equipoise demo`, a whole round of three hospitals with simulated patients; `demo-service` plays them too."""
