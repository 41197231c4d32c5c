// Drizzle: units of work. Arguments: the URL's part behind the driver, how many, how their names begin.
const { drizzle } = require('drizzle-orm/node-postgres');
const { bigserial, integer, pgTable, text } = require('drizzle-orm/pg-core');
const { Pool } = require('pg');

const counter = pgTable('counter', { id: integer().primaryKey(), value: integer() });
const unit = pgTable('unit', { id: bigserial({ mode: 'number' }).primaryKey(), name: text() });

async function main() {
  const pool = listen(new Pool({ connectionString: `postgresql://${process.argv[2]}`, application_name: 'retried', max: 2 }));
  const db = drizzle(pool);
  for (let number = 0; number < Number(process.argv[3]); number++) {
    const work = async (transaction) => {
      await transaction.update(counter).set({ value: sql`${counter.value} + 1` });
      await transaction.insert(unit).values({ name: process.argv[4] + number });
    };
    await runDrizzle(db, work, 200);
  }
  await pool.end();
}

main();
