// The package for node-postgres: units of work. Arguments: the URL's part behind the driver, how many, how their names begin.
const { Pool } = require('pg');
const { listen, run } = require('psp-client');

async function main() {
  const pool = listen(new Pool({ connectionString: `postgresql://${process.argv[2]}`, application_name: 'retried', max: 2 }));
  for (let number = 0; number < Number(process.argv[3]); number++) {
    const work = async (client) => {
      await client.query('UPDATE counter SET value = value + 1');
      await client.query('INSERT INTO unit (name) VALUES ($1)', [process.argv[4] + number]);
    };
    await run(pool, work, { attempts: 200 });
  }
  await pool.end();
}

main();
