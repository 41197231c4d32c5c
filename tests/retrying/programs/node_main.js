// node-postgres: adds one to a counter again and again. Arguments: the URL's part behind the driver, how often.
const { Pool } = require('pg');

async function main() {
  const pool = listen(new Pool({ connectionString: `postgresql://${process.argv[2]}`, application_name: 'retried', max: 2 }));
  for (let i = 0; i < Number(process.argv[3]); i++) {
    await run(pool, (client) => client.query('UPDATE counter SET value = value + 1'), 200);
  }
  await pool.end();
}

main();
