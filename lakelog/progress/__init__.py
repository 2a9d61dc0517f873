"""How far long calls are: what they note, and who shows it."""
