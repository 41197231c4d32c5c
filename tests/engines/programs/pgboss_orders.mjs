// An application with a job queue. Arguments: URL, command, its arguments.
//
// schema: makes the engine's tables, and the queue.
// defer FIRST END: orders FIRST to END - 1.
// work [PAUSE_S]: serves orders until it is ended.
import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";
import { PgBoss } from "pg-boss";

const [url, command, ...rest] = process.argv.slice(2);
const boss = new PgBoss({
  connectionString: url,
  schedule: false,
  supervise: command === "work", // it gives jobs of dead workers to others
  superviseIntervalSeconds: 5,
  monitorIntervalSeconds: 5,
});
boss.on("error", (error) => console.log(`pg-boss: ${error.message}`));
const pool = new pg.Pool({ connectionString: url });
pool.on("error", () => {}); // a connection that is lost: the next query makes another one

// A job may run twice, so its rows have a key that tells.
async function pay([{ data }]) {
  console.log(`pays ${data.number}`);
  await sleep(1000 * Number(rest[0] ?? 0));
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const done = await client.query("INSERT INTO unit (name) VALUES ($1) ON CONFLICT DO NOTHING", [`order ${data.number}`]);
    if (done.rowCount === 1) await client.query("UPDATE counter SET value = value + 1");
    await client.query("COMMIT");
    client.release();
  } catch (error) {
    client.release(error);
    throw error; // the engine tries again
  }
}

await boss.start();
if (command === "work") {
  for (let n = 0; n < 4; ++n) await boss.work("orders", { pollingIntervalSeconds: 0.5 }, pay);
} else if (command === "schema") {
  await boss.createQueue("orders", { retryLimit: 100, retryDelay: 1, heartbeatSeconds: 10 });
  await boss.stop();
} else {
  const [first, end] = rest.map(Number);
  for (let number = first; number < end; ++number) {
    await boss.send("orders", { number });
  }
  await boss.stop();
}
if (command !== "work") await pool.end();
