"""FLOOD: what a light client notices while another one abuses the metastore."""
