"""Tables, snapshots and data files as values, and plans over them."""
