"""Files and keys that change while a server runs, and are taken into use without a restart."""
