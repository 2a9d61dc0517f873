"""FLOOD: the effect on a light client while another client abuses the metastore."""
