-- Few parents, and children that refer to them in each way.
CREATE TABLE parents (id int PRIMARY KEY, code text NOT NULL UNIQUE, n int NOT NULL DEFAULT 0);
INSERT INTO parents SELECT n, 'code ' || n FROM generate_series(0, 5) n;

CREATE TABLE restricted (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), parent int REFERENCES parents);
CREATE TABLE cascaded (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                       parent int REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE emptied (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                      parent bigint REFERENCES parents ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE defaulted (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                        parent int DEFAULT 0 REFERENCES parents ON DELETE SET DEFAULT ON UPDATE SET DEFAULT);
CREATE TABLE coded (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                    parent text REFERENCES parents (code) ON DELETE CASCADE ON UPDATE CASCADE
                    DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE journal (id uuid PRIMARY KEY);
