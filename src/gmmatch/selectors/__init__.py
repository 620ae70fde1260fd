"""The methods a user names, one short file each, and their registry."""
