-- A schema change has committed as $2: it makes catalog version $1, and changes ($4 false) or drops these tables and guards:
-- $3 int4[] number, $4 bool[] dropped, $5 bool[] emptied, $6 int4[] the table that each belongs to,
-- $7 bytea[] the forms of tables. Run in the transaction that certifies it.
WITH changed AS (
    INSERT INTO psp.table_versions (table_id, changed_in, dropped, of_table, form)
    SELECT c.table_id, $1, c.dropped, c.of_table, c.form
    FROM unnest($3::int4[], $4::bool[], $6::int4[], $7::bytea[]) AS c (table_id, dropped, of_table, form)
    ON CONFLICT (table_id) DO UPDATE SET changed_in = excluded.changed_in, dropped = excluded.dropped, of_table = excluded.of_table,
                                         form = excluded.form
), emptied AS (
    INSERT INTO psp.emptied_tables (table_id, emptied_t)
    SELECT c.table_id, $2
    FROM unnest($3::int4[], $5::bool[]) AS c (table_id, emptied)
    WHERE c.emptied
    ON CONFLICT (table_id) DO UPDATE SET emptied_t = excluded.emptied_t, swept_upto = excluded.swept_upto
), begun AS (
    INSERT INTO psp.catalog_versions (version, global_t) VALUES ($1, $2)
)
UPDATE psp.cluster SET catalog_version = $1
