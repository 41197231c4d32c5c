-- From version 10. The number of copies that a decision must be on before it is told.
ALTER TABLE psp.cluster ADD COLUMN copies integer NOT NULL DEFAULT 0 CHECK (copies >= 0);
-- From version 10. It is known which numbers are guards, and of which table.
ALTER TABLE psp.table_versions ADD COLUMN of_table integer;
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 11;
UPDATE psp.cluster SET schema_version = 11;
