"""`equipoise demo` and `equipoise demo-service`: whole rounds of three hospitals with simulated patients."""
