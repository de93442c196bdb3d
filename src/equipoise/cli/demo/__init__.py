"""`equipoise demo` and `equipoise demo-service`: whole rounds on data that ship with scikit-learn."""
