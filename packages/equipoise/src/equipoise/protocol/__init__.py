"""The messages between a party and a service, and the checks that either can make on its own."""
