SELECT psp.refuse_foreign_tables()::text
