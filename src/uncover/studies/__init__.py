"""Studies of the method on problems whose truth is known."""
