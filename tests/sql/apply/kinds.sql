-- Tables of all kinds that differ in how their rows are written.
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN few AS int CHECK (VALUE < 100);
CREATE FUNCTION low(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE TABLE plain (gone int, id int, other varchar(3), n numeric(6, 2), padded char(4), at timestamptz(0), PRIMARY KEY (other, id));
ALTER TABLE plain DROP COLUMN gone;
CREATE TABLE as_text (id int PRIMARY KEY, m mood, d few, a int[], x xml, i interval(0)[]);
CREATE TABLE by_mood (m mood PRIMARY KEY, v int);
CREATE TABLE equal (n numeric PRIMARY KEY, v text);
CREATE TABLE padded (c char(3) PRIMARY KEY, v int);
CREATE TABLE uniques (id int PRIMARY KEY, u int UNIQUE, v varchar(9), w int, CHECK (w > 0));
CREATE UNIQUE INDEX uniques_low ON uniques (low(v)) WHERE w < 50;
CREATE TABLE late (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, u int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE computed (id int, twice int GENERATED ALWAYS AS (id * 2) STORED PRIMARY KEY, v int, sum int GENERATED ALWAYS AS (id + v) STORED);
CREATE TABLE numbered (id int PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY, v int NOT NULL);
CREATE TABLE apart (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&));
CREATE INDEX apart_id ON apart USING brin (id);
CREATE TABLE only_key (id int PRIMARY KEY);
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE watched (id int PRIMARY KEY, v int);
CREATE TABLE seen (id int PRIMARY KEY, v int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN INSERT INTO public.seen VALUES (NEW.id, NEW.v) ON CONFLICT DO NOTHING; RETURN NEW; END$$;
CREATE TRIGGER note BEFORE INSERT OR UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION note();
ALTER TABLE watched ENABLE ALWAYS TRIGGER note;
CREATE FUNCTION again(int) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RETURN true; END$$;
CREATE TABLE nested (id int PRIMARY KEY, v int, CHECK (again(id)));
