"""The service over HTTP: the application, its middleware, the API and the pages."""
