"""What runs on the user's machine: talks to the server, imports none of it."""
