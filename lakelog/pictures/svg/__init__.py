"""How pictures are drawn: shapes, colours, scales and words. Pure."""
