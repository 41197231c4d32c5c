-- The roles that each server of compose.yaml has: they belong to a server, not to a database.
CREATE ROLE app LOGIN PASSWORD 'app';
